"""The values inside one pass of a model, by the names of their points."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from math import prod
from pathlib import Path

import numpy as np

from segre.checkpoint.inputs import require_tokens, shortened
from segre.checkpoint.runnable import open_model
from segre.errors import SpecError
from segre.fields import Real
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.geometry.memory import DEFAULT_LIMIT
from segre.inspect.diagnose import LENGTH
from segre.inspect.interventions import Intervention
from segre.models import Source
from segre.shown import Brief
from segre.transformer.forward import Place, Tokens, finished, outputs_by_part
from segre.transformer.points import points, tokens_first
from segre.values import quote

STREAMS = ("hook_embed", "blocks.*.hook_resid_post")


@dataclass(frozen=True)
class Recording(Brief, Mapping[str, Array]):
    """Arrays in double precision by the names of points, in the order of the pass."""

    arrays: Mapping[str, Array]
    ids: Array  # the tokens
    outputs: Array  # (tokens, rows): logits or hidden states

    def __getitem__(self, name: str) -> Array:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    def __str__(self) -> str:
        return f"{len(self)} points on {len(self.ids)} tokens, {self.nbytes / 1024:,.1f} KiB"

    @property
    def nbytes(self) -> int:
        """How many bytes its arrays take, those of the outputs aside."""
        return sum(array.nbytes for array in self.arrays.values())


def record(
    source: Source,
    names: str | Sequence[str] = STREAMS,
    *,
    text: str | Path | None = None,
    ids: Sequence[int] | Array | None = None,
    length: int = LENGTH,
    settings: Sequence[str] = (),
    ablations: Sequence[str] = (),
    seed: int = 0,
    memory: int = DEFAULT_LIMIT,
) -> Recording:
    """One pass of a model on the first tokens of a text, on given tokens (`ids`) or random ones.

    The model is opened as by `segre.open(source)`: `source` may be a directory, an architecture or
    an opened model. `names` are names of points or patterns of them, such as
    "blocks.*.attn.hook_pattern"; the default is the stream after the embedding and after each
    layer. Streams take 8 bytes for each token and channel, patterns 8 bytes for each head and pair
    of tokens; what all of it would take is computed first, and refused above the limit. `settings`
    and `ablations` are those of `diagnose`.

    >>> spec = "gpt2/d=16/layers=2/heads=2/ff=8/vocab=50/t=16"
    >>> found = record(spec, "*.hook_pattern", length=5)
    >>> found
    <Recording: 2 points on 5 tokens, 0.8 KiB>
    >>> found["blocks.1.attn.hook_pattern"].shape
    (2, 5, 5)
    """
    model = open_model(source, seed)
    if ids is None:
        ids = shortened(model, text, 1, length, seed).batches[0][0]
    given = require_tokens(model, ids)
    every = points(model.spec, len(given))
    wanted = (names,) if isinstance(names, str) else tuple(names)
    for one in wanted:
        if not any(fnmatchcase(name, one) for name in every):
            known = dict.fromkeys(".".join(n.split(".")[2:]) or n for n in every)
            raise SpecError(f"point {quote(one)} is not there; allowed: {', '.join(known)}")
    chosen = {name for name in every if any(fnmatchcase(name, one) for one in wanted)}
    model.require_memory("the recorded arrays", sum(8 * prod(every[n]) for n in chosen), memory)
    intervention = Intervention.read(settings, ablations)
    intervention.require(model.spec, len(given))
    arrays: dict[str, Array] = {}

    def keep(place: Place, name: str, value: Array) -> Array:
        value = intervention.at(place, name, value)
        full = place.full(name)
        if full in chosen:
            arrays[full] = np.array(tokens_first(name, value))
        return value

    with threads_for(model.spec.d), np.errstate(over="ignore", invalid="ignore"):
        out = finished(outputs_by_part(model, Tokens(given[None]), Real(), hook=keep))
    ordered = {name: arrays[name] for name in every if name in arrays}
    return Recording(ordered, given, out[0].T)
