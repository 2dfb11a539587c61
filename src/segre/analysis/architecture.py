"""What is it? The design choices in words, and where the parameters are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from functools import singledispatch
from itertools import chain
from typing import Any

from segre.analysis.part import Part, percent
from segre.analysis.workbench import Workbench
from segre.architectures import Architecture
from segre.network import tensors
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.by_layer import Base, every
from segre.transformer.spec import Transformer
from segre.values import counted

Row = tuple[str, str | int, str]  # a name, its value, a remark

_MLP = {
    "gelu": "GELU",
    "gelu-tanh": "GELU (tanh)",
    "gelu-quick": "GELU (quick)",
    "silu": "SiLU",
    "relu": "ReLU",
    "relu2": "squared ReLU",
    "swiglu": "SwiGLU",
    "geglu": "GeGLU",
    "geglu-tanh": "GeGLU (tanh)",
    "geglu-quick": "GeGLU (quick)",
    "reglu": "ReGLU",
    "bilinear": "bilinear",
    "clamped": "GeGLU (quick, clamped)",
}
_NORMS = {"rms": "RMSNorm", "layer": "LayerNorm"}
_PLACES = {
    "pre": "before attention and MLP",
    "post": "after the skips",
    "sandwich": "on both sides of attention and MLP",
    "after": "after attention and MLP, before the skips",
}
_BIASES = {
    "none": "none",
    "qkv": "queries, keys and values",
    "attn": "all of attention",
    "mlp": "all of the MLP",
    "all": "everywhere",
}
_OUTPUTS = {
    "hidden": "hidden states",
    "logits": "logits",
    "softmax": "a distribution over the vocabulary",
}


def what_it_is(bench: Workbench) -> Part:
    """The architecture as a list of choices, and its parameters by piece."""
    spec = bench.spec
    pieces = parameters_by_piece(spec)
    largest = max(pieces, key=lambda name: pieces[name])
    lead = (
        f"{_described(spec)}. It has {spec.parameters:,} parameters, "
        f"{percent(pieces[largest], spec.parameters)} of them in {largest}."
    )
    return Part(
        status="exact",
        lead=lead,
        how="Read from the spec or the config; parameters are counted from the shapes of tensors.",
        command=bench.command(["what"]),
        data={
            "spec": str(spec),
            "digest": spec.digest,
            "parameters": spec.parameters,
            "choices": [list(choice) for choice in choices(spec)],
            "pieces": pieces,
        },
        takeaways={"parameters-by-piece": where_most_are(pieces)},
    )


@singledispatch
def _described(spec: Architecture) -> str:
    return str(spec)


@_described.register(Network)
def _stack_described(spec: Network) -> str:
    fewest, most = min(spec.heads_by_layer), max(spec.heads_by_layer)
    some = f"{fewest} to {most}" if fewest < most else f"{most}"
    of_heads = f" of {some} heads" if most > 1 else ""
    layers = counted(spec.depth, "layer")
    if spec.plain:
        tokens = counted(spec.t, "token")
        return f"A stack of {layers} of {spec.score} attention{of_heads} on {tokens}"
    kinds = ", ".join(one.text for one in spec.mechanisms)
    return f"A stack of {layers} of attention on {counted(spec.t, 'token')}; heads: {kinds}"


@_described.register(Polynomial)
def _polynomial_described(spec: Polynomial) -> str:
    kind = "convolutional" if spec.convolutional else "dense"
    if spec.degree == 1:
        return f"A linear {kind} network with {counted(spec.depth, 'layer')}"
    layers = counted(spec.depth, "layer")
    return f"A {kind} network with {layers} and the activation x^{spec.degree} between them"


@_described.register(Transformer)
def _transformer_described(spec: Transformer) -> str:
    kind = "A transformer" if not spec.discrete else "A language model"
    if spec.labels:
        kind = "A classifier"
    if spec.discrete and spec.output == "hidden":
        kind = "An encoder" if not spec.causal else "A language model without its head"
    return (
        f"{kind} with {counted(spec.layers, 'layer')}, width {spec.d:,} and "
        f"{counted(spec.heads, 'head')}"
    )


@singledispatch
def choices(spec: Architecture) -> Iterator[Row]:
    """The design choices, a line each."""
    raise TypeError(f"the choices of {type(spec).__name__} are not known")


@choices.register(Network)
def _of_stack(spec: Network) -> Iterator[Row]:
    remark = {"lightning": "scores as they are, a polynomial", "softmax": "normed over keys"}
    if spec.plain:
        yield "attention", spec.score, remark[spec.score]
    yield "layers", spec.depth, "no skips, norms or MLPs"
    yield "widths", " to ".join(str(width) for width in spec.widths), ""
    if spec.plain:
        yield "heads", _listed(spec.heads_by_layer), "of a layer"
    for number, layer in enumerate(() if spec.plain else spec.layers, 1):
        yield f"heads of layer {number}", layer.heads, layer.text
    yield "head rank a", _listed([layer.a for layer in spec.layers]), "of queries and keys"
    yield "tokens", spec.t, ""


@choices.register(Polynomial)
def _of_polynomial(spec: Polynomial) -> Iterator[Row]:
    yield "layers", spec.depth, "convolutions, one filter each" * spec.convolutional
    yield "widths", " to ".join(str(width) for width in spec.widths), ""
    for name, column in (
        ("filter lengths", [layer.kernel for layer in spec.convolutions]),
        ("strides", [layer.stride for layer in spec.convolutions]),
    ):
        if column:
            yield name, _listed(column), ""
    remark = f"outputs have degree {spec.total_degree}" * (spec.depth < 8)
    yield "activation", f"x^{spec.degree}" if spec.degree > 1 else "none", remark
    yield "biases", "in every layer" if spec.bias else "none", ""


def _listed(numbers: list[int]) -> str | int:
    return numbers[0] if len(set(numbers)) == 1 else ", ".join(map(str, numbers))


@choices.register(Transformer)
def _of_transformer(spec: Transformer) -> Iterator[Row]:
    """A row whose value is nothing is of something that was not chosen."""
    rows = chain(_of_attention(spec), _of_layers(spec), _of_tokens(spec))
    return ((name, value, remark) for name, value, remark in rows if value)


def _of_attention(spec: Transformer) -> Iterator[tuple[str, Any, str]]:
    sizes = f"of {spec.head} dimensions" + f", values of {spec.dv}" * (spec.head != spec.dv)
    queries = f", of queries {spec.qrank}" if spec.qrank else ""
    kinds = Counter(every(spec.attn, spec.layers)) if spec.by_mechanism else {}
    windows = " or ".join(f"{size:,}" for size in sorted({size for size in spec.window if size}))
    where = "in some layers" if len(set(spec.window)) > 1 else "in all layers"
    scale = f"over the root of {spec.scale or spec.standard}" * bool(spec.scale or spec.bylayer)
    normed = "of all heads together" if spec.qknorm == "all" else "per head"
    yield "layers", spec.layers, "all with the same weights" * bool(spec.share)
    yield "width", spec.d, "of the residual stream" if spec.residual else "no skips"
    yield "heads", spec.heads, sizes
    yield "key-value heads", spec.group > 1 and spec.kv, f"each shared by {spec.group} query heads"
    yield "latent attention", spec.latent and spec.kvrank, f"rank of keys and values{queries}"
    seen = "causal" if spec.causal else "every token sees all"
    yield "attention", " and ".join(one.name for one in spec.mechanisms), seen
    yield "layers of attention", ", ".join(f"{n} {kind}" for kind, n in kinds.items()), ""
    yield "sliding window", windows, f"tokens, {where}"
    yield "scores", scale, "and over the number of the layer" * spec.bylayer
    gate, decay = (own * (own != "none") for own in (spec.gate, spec.decay))
    yield "gate of heads", gate, "sigmoid(W_G x), times what a head mixes"
    yield "decay", decay, "of lightning heads, each at a rate of its own"
    yield "sinks", "yes" * bool(spec.sinks), "a score for nothing in every head"
    yield "norms of queries and keys", "yes" * bool(spec.qknorm), f"RMSNorm, {normed}"


def _of_layers(spec: Transformer) -> Iterator[tuple[str, Any, str]]:
    if spec.mlp == "none":
        yield "MLP", "none", ""
    elif spec.experts:
        remark = f"{spec.active} active, {spec.eff:,} units each; {spec.shared:,} units shared"
        yield "experts", spec.experts, remark
    else:
        yield "MLP", _MLP[spec.mlp], f"{spec.ff:,} hidden units"
    times = "" if spec.skip == 1 else f"times {float(spec.skip):g}"
    yield "skips", times, "the stream, where something is added"
    yield "sublayers", "parallel" * spec.parallel, "attention and MLP read the same stream"
    if spec.norm == "none":
        yield "norms", "none", ""
    else:
        yield "norms", _NORMS[spec.norm], f"{_PLACES[spec.place]}, eps {float(spec.eps):g}"
    yield "positions", *_positions(spec)
    yield "biases", _BIASES[spec.bias], ""


def _of_tokens(spec: Transformer) -> Iterator[tuple[str, Any, str]]:
    tables = "one table for input and output" if spec.tied else "input and output apart"
    if spec.output == "hidden" or spec.labels:
        tables = "no output head of words"
    yield "vocabulary", spec.discrete and spec.vocab, tables
    patches = f"{spec.patch:,} entries" if spec.patch else ""
    yield (
        "patches",
        patches,
        "and a class token" if spec.cls else "mapped to the width, with a bias",
    )
    yield "output", *_output(spec)
    yield "tokens", spec.t, "of an input, at most" if spec.discrete else "of an input"


def _output(spec: Transformer) -> tuple[str, str]:
    if spec.labels:
        read = {"all": "of every token", "first": "of the first token", "last": "of the last token"}
        kind = "a distribution over labels" if spec.output == "softmax" else "logits of labels"
        pooled = ", pooled" * bool(spec.pooler)
        return kind, f"{counted(spec.labels, 'label')}, {read[spec.read]}{pooled}"
    if spec.relation:
        return _OUTPUTS[spec.output], f"and {spec.relation} labels of the pooled first token"
    return _OUTPUTS[spec.output], "and a pooled first token" * bool(spec.pooler)


def _positions(spec: Transformer) -> tuple[str, str]:
    if spec.pos == "rope":
        turned = "" if spec.rotary_dim == spec.head else f"{spec.rotary_dim} dimensions of a head, "
        ways = [
            f"base {_thousands(base)}{f', rescaled: {how}' * bool(how)}"
            for base, how in spec.rotations
        ]
        still = isinstance(spec.base, tuple) and 0 in spec.base
        return "rotary", turned + "; ".join([*ways, *["none in some layers"] * still])
    if spec.pos == "learned":
        used = f", used from row {spec.offset} on" if spec.offset else ""
        return "learned", f"a table of {spec.positions or spec.t:,}{used}"
    return "none", ""


def _thousands(base: Base) -> str:
    return f"{base:,}" if isinstance(base, int) else f"{float(base):,}"


def parameters_by_piece(spec: Architecture) -> dict[str, int]:
    """How many parameters each kind of tensor has; kinds without parameters are left out.

    >>> from segre.models import architecture
    >>> parameters_by_piece(architecture("llama/d=4/heads=2/ff=3/vocab=11/t=3"))
    {'embeddings': 44, 'queries and keys': 32, 'values and outputs': 32, 'MLP': 36,
     'norms': 12, 'unembedding': 44}
    """
    found = dict.fromkeys(_PIECES, 0)
    for (part, name), slot in tensors(spec).items():
        found[_piece(part, name)] += slot.size
    return {name: size for name, size in found.items() if size}


_PIECES = (
    "weights",
    "embeddings",
    "queries and keys",
    "values and outputs",
    "MLP",
    "norms",
    "biases",
    "unembedding",
)


def _piece(part: str, name: str) -> str:
    if "norm" in name or name.startswith("post"):
        return "norms"
    if part == "embed":
        return "embeddings"
    if part == "head":
        return "unembedding"
    if name in ("W", "w", "b"):  # of a polynomial network
        return "biases" if name == "b" else "weights"
    if name.startswith(("b_", "c_")):
        return "biases"
    if name in ("W_Q", "W_K", "A_Q", "A_K", "R_Q", "R_K", "sinks"):
        return "queries and keys"
    return "values and outputs" if name in ("W_V", "W_G", "W_O") else "MLP"


def where_most_are(pieces: Mapping[str, int]) -> str:
    """Where most of the parameters are.

    >>> where_most_are({"embeddings": 60, "MLP": 30, "norms": 10})
    'Embeddings and MLP together hold 90% of the parameters.'
    >>> where_most_are({"weights": 60})
    'Weights hold all of the parameters.'
    """
    total = sum(pieces.values())
    first, *rest = sorted(pieces, key=lambda name: -pieces[name])
    name = f"{first[0].upper()}{first[1:]}"
    if not rest:
        return f"{name} hold all of the parameters."
    if len(rest) == 1:
        shares = [percent(pieces[one], total) for one in (first, rest[0])]
        return f"{name}: {shares[0]} of the parameters; {rest[0]}: {shares[1]}."
    share = percent(pieces[first] + pieces[rest[0]], total)
    return f"{name} and {rest[0]} together hold {share} of the parameters."
