"""The forward pass of a transformer, with the weights of one sub-layer in memory at a time.

Weights come from a `WeightSource`: a memory-mapped checkpoint, or random weights drawn on demand.
The same weights are used for several edits of the spec (without skips, without norms) before the
next ones are read, so that a model larger than memory is read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from segre.fields.interface import Array
from segre.fields.real import Real
from segre.transformer.spec import Transformer
from segre.transformer.stages import embedded, head, patched, sublayer
from segre.transformer.tensors import CONSTANTS, of_mlp, part_shapes

Tensors = dict[str, Array]
Edit = Callable[[Transformer, int], Transformer | None]
T = TypeVar("T")
AFTER = ("hook_resid_mid", "hook_resid_post")  # the stream after a sub-layer, after the last
EMBED, ATTENTION, MLP, HEAD = range(4)  # before the layers, their sub-layers, after the last


class WeightSource(Protocol):
    """The tensors of a spec, by part (embed, 1, 2, ..., head)."""

    @property
    def spec(self) -> Transformer:
        """The architecture of the weights."""

    def part(
        self, part: str, names: Iterable[str] | None = None, dtype: npt.DTypeLike = np.float64
    ) -> Tensors:
        """The tensors of a part, or only the named ones."""

    def columns(self, name: str, which: Array, dtype: npt.DTypeLike = np.float64) -> Array:
        """Some columns of an embedding table, without reading the others."""


@dataclass(frozen=True)
class Tokens:
    """Sequences of tokens, and of token types if the model has them: (inputs, length).

    For a model of patches the words are patches, (inputs, entries, length), or numbers of random
    patches; with a class token the first patch is not read. If the stream begins with its inputs,
    the words are matrices: (inputs, width, length).
    """

    words: Array
    types: Array | None = None

    @property
    def length(self) -> int:
        """Number of tokens of a sequence."""
        return int(self.words.shape[-1])


class Place(NamedTuple):
    """Where a pass is: in a sub-layer, with its weights, for an edit and a batch."""

    layer: int  # from 1; 0 before the layers
    number: int
    spec: Transformer | None  # as it was edited, at the length of the batch; None: left out
    w: Mapping[str, Any]
    edit: int = 0
    batch: int = 0

    def full(self, name: str) -> str:
        """The name of a point in the whole model."""
        return name if self.number in (EMBED, HEAD) else f"blocks.{self.layer - 1}.{name}"

    def depth(self, name: str) -> int | None:
        """After how many layers the stream is at a point; None if that is not between layers."""
        if name == "hook_resid_pre" and self.layer == 1:
            return 0
        return self.layer if name == "hook_resid_post" else None


Hook = Callable[[Place, str, Any], Any]


def unseen(_place: Place, _name: str, value: Any) -> Any:
    """The hook that changes nothing."""
    return value


def as_it_is(spec: Transformer, _number: int) -> Transformer | None:
    """The edit that changes nothing."""
    return spec


def at_length(spec: Transformer, length: int) -> Transformer:
    """The same transformer on inputs of another length, with only the positions in use."""
    return replace(spec, t=length, positions=length if spec.positions else 0, offset=0)


def embed(weights: WeightSource, tokens: Tokens, field: Real, hook: Hook = unseen) -> Array:
    """The input of the layers: (inputs, 1, 1, width, length)."""
    spec = at_length(weights.spec, tokens.length)
    seen = partial(hook, Place(0, EMBED, spec, {}))
    if not spec.embedded:
        return embedded(field, spec, {}, tokens.words.astype(field.dtype)[:, None, None])
    names = [n for n in part_shapes(spec, "embed") if n not in ("tokens", "positions", "types")]
    w = weights.part("embed", names, field.dtype) if names else {}
    if spec.positions:
        used = weights.spec.offset + np.arange(tokens.length)
        positions = weights.columns("positions", used, field.dtype)
        w["positions"] = seen("hook_pos_embed", positions)
    if spec.patch:
        x = _patches(spec, tokens.words, field)[:, None, None]
        return embedded(field, spec, w, patched(field, spec, w, x))
    words = seen("hook_embed", _looked_up(weights, "tokens", tokens.words, field))
    if not spec.types:
        return embedded(field, spec, w, words)
    kinds = np.zeros_like(tokens.words) if tokens.types is None else tokens.types
    return embedded(field, spec, w, words, _looked_up(weights, "types", kinds, field))


def _patches(spec: Transformer, words: Array, field: Real) -> Array:
    """The given patches, or random ones by number: patch n is normal, drawn with seed n."""
    if words.ndim == 3:
        return words.astype(field.dtype)
    used, places = np.unique(words, return_inverse=True)
    drawn = [np.random.default_rng(int(n)).standard_normal(spec.patch) for n in used]
    rows = np.array(drawn, field.dtype).reshape(len(used), spec.patch)
    return np.asarray(rows[places.reshape(words.shape)].swapaxes(1, 2))


def _looked_up(weights: WeightSource, table: str, which: Array, field: Real) -> Array:
    """Columns of a table: (inputs, 1, 1, width, length); each column is read only once.

    In memory the inputs lie side by side in each row, so that one product maps all of them.
    """
    used, places = np.unique(which, return_inverse=True)
    rows = np.take(weights.columns(table, used, field.dtype), places.reshape(which.shape), axis=1)
    return np.moveaxis(rows, 0, 1)[:, None, None]


def sublayer_weights(
    weights: WeightSource, layer: int, number: int, dtype: npt.DTypeLike = np.float64
) -> Tensors:
    """The tensors of attention or MLP of a layer (from 1), ready for `sublayer`.

    In a spec the queries, or the gain of their norm, include the standard scale of the scores.
    """
    spec = weights.spec
    part = "1" if spec.share else str(layer)
    names = [n for n in part_shapes(spec, part) if of_mlp(n) == (number == MLP)]
    names += CONSTANTS if number == MLP else ()
    return scaled(spec.at(part), _unscaled(weights.part(part, names, dtype)))


def _unscaled(w: Tensors) -> Tensors:
    """The tensors of a sublayer, with the output scale absorbed into the output weights."""
    for scale, names in (("scale1", ("W_O", "b_O")), ("scale2", ("W_down", "b_down"))):
        if scale in w:
            w |= {name: w[name] * w[scale] for name in names}
            del w[scale]
    return w


def scaled(spec: Transformer, w: Tensors) -> Tensors:
    """The tensors, with the standard scale of the scores absorbed."""
    names, scale = query_factors(spec), spec.standard**-0.5
    return {n: (x * scale).astype(x.dtype, copy=False) if n in names else x for n, x in w.items()}


def query_factors(spec: Transformer) -> tuple[str, ...]:
    """The tensors of a layer that absorb a factor of its scores; empty if there is no factor."""
    if spec.feature != "none":
        return ()
    return ("normq.gain",) if spec.qknorm else ("W_Q", "R_Q", "b_Q")


def run(
    weights: WeightSource,
    batches: Sequence[Tokens],
    field: Any = None,
    edits: Sequence[Edit] = (as_it_is,),
    hook: Hook = unseen,
) -> list[list[Any]]:
    """The streams after the last layer, for every edit and batch.

    An edit receives the spec and the sub-layer; None leaves the sub-layer out. A `hook` receives
    the value of every named point (`points`), and what it returns is used instead.
    """
    return finished(layer_by_layer(weights, batches, field, edits, hook))


def finished(steps: Generator[str, None, T]) -> T:
    """The final value of a sequence of steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            out: T = end.value
            return out


def layer_by_layer(
    weights: WeightSource,
    batches: Sequence[Tokens],
    field: Any = None,
    edits: Sequence[Edit] = (as_it_is,),
    hook: Hook = unseen,
) -> Generator[str, None, list[list[Any]]]:
    """Like `run`, in steps: yields the name of every part before it is read."""
    field = Real() if field is None else field
    yield "embed"
    first = [embed(weights, tokens, Real(field.dtype), hook) for tokens in batches]
    streams = [list(first) for _ in edits]
    read = partial(sublayer_weights, weights, dtype=field.dtype)
    layers = range(1, weights.spec.layers + 1)
    yield from through(weights.spec, layers, streams, batches, field, read, edits, hook)
    return streams


def through(
    spec: Transformer,
    layers: Iterable[int],
    streams: list[list[Any]],
    batches: Sequence[Tokens],
    field: Any,
    read: Callable[[int, int], Mapping[str, Any]],
    edits: Sequence[Edit] = (as_it_is,),
    hook: Hook = unseen,
) -> Generator[str, None, None]:
    """Replace streams[edit][batch] by what some layers make of them, in steps.

    `read` has the tensors of a sub-layer, given the number of its layer and its own.
    """
    numbers = (ATTENTION, MLP) if spec.mlp != "none" else (ATTENTION,)
    kept: dict[int, Mapping[str, Any]] = {}  # where all layers have the same weights
    for layer in layers:
        if layer == 1 or not spec.share:
            yield str(layer)
        begin: dict[tuple[int, int], Any] = {}
        for number in numbers:
            w = kept.get(number) or read(layer, number)
            if spec.share:
                kept[number] = w
            for (i, edit), (j, tokens) in product(enumerate(edits), enumerate(batches)):
                edited = edit(at_length(spec, tokens.length), number)
                place = Place(layer, number, edited, w, i, j)
                x = streams[i][j]
                if number == ATTENTION:
                    x = hook(place, "hook_resid_pre", x)
                    if spec.parallel:
                        begin[i, j] = x
                if edited is not None:
                    reads = begin.get((i, j)) if number == MLP else None
                    own = partial(sublayer, spec=edited, layer=layer, number=number, reads=reads)
                    x = own(field, w, x, hook=partial(hook, place))
                streams[i][j] = hook(place, AFTER[number == numbers[-1]], x)
            del w, place  # before the next are read


def outputs(
    weights: WeightSource,
    tokens: Tokens,
    field: Real,
    progress: Callable[[int], None] = lambda _: None,
) -> Array:
    """Hidden states (and the pooled token, as one more column) or logits: (inputs, rows, t)."""
    return finished(outputs_by_part(weights, tokens, field, progress))


def outputs_by_part(
    weights: WeightSource,
    tokens: Tokens,
    field: Real,
    progress: Callable[[int], None] = lambda _: None,
    hook: Hook = unseen,
) -> Generator[str, None, Array]:
    """Like `outputs`, in steps: yields the name of every part before it is read."""
    progress(0)

    def told(place: Place, name: str, value: Any) -> Any:
        if name == "hook_resid_post":
            progress(place.layer)
        return hook(place, name, value)

    ((x,),) = yield from layer_by_layer(weights, [tokens], field, hook=told)
    yield "head"
    x = ending(weights, tokens.length, field, x, hook, field.dtype)
    return np.asarray(x.reshape(len(tokens.words), *x.shape[-2:]))


def ending(
    weights: WeightSource,
    length: int,
    field: Any,
    x: Any,
    hook: Hook = unseen,
    dtype: npt.DTypeLike = np.float64,
    lifted: Callable[[Tensors], Mapping[str, Any]] = lambda w: w,
) -> Any:
    """The outputs of the last stream, with the weights of the head as the field needs them."""
    spec = at_length(weights.spec, length)
    if not (spec.final or not spec.shows_stream or spec.pooler):
        return x
    w = weights.part("head", None, dtype)
    if spec.tied:
        w |= weights.part("embed", ["tokens"], dtype)
    place = Place(spec.layers + 1, HEAD, spec, w)
    return head(field, lifted(w), x, spec=spec, hook=partial(hook, place))
