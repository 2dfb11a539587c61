"""Formulas that are run on symbols say what they say of numbers, whatever the sizes are."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import SpecError
from segre.explore.applied import of_stack, of_transformer
from segre.explore.trace import Path, traced, value
from segre.spec import Network
from segre.theorems import apply
from segre.theorems.decoders import contexts
from segre.transformer.spec import Transformer

SIZES = st.integers(1, 400)


@given(SIZES, SIZES, SIZES, SIZES, SIZES)
def test_branches_minima_and_quotients(V: int, t: int, m: int, words: int, last: int) -> None:
    at = {"V": V, "t": t, "m": m, "words": words, "last": last}
    assert value(TREE, at) == contexts(V, t, m, words, last)


def _contexts(path: Path) -> dict[str, object]:
    names = ("V", "t", "m", "words", "last")
    return {"contexts": contexts(*(path.size(name) for name in names))}


TREE = traced(_contexts)["contexts"]


def test_a_loop_over_a_size_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot be written down"):
        traced(lambda path: {"sum": sum(range(path.size("d")))})


def test_what_contradicts_itself_at_some_sizes_is_nothing_there() -> None:
    def formula(path: Path) -> dict[str, object]:
        if path.size("a") > path.size("d"):
            raise SpecError("a is more than d")
        return {"rank": path.size("a")}

    tree = traced(formula)["rank"]
    assert (value(tree, {"a": 3, "d": 5}), value(tree, {"a": 6, "d": 5})) == (3, 0)


@pytest.mark.parametrize(
    "choices",
    [
        "mlp=swiglu/norm=rms/eps=1e-05/pos=rope/vocab={V}/causal=true",
        "mlp=gelu/norm=rms/eps=1e-05/pos=rope/vocab={V}/tied=true/qknorm=true/causal=true",
        "mlp=swiglu/norm=rms/eps=1e-05/pos=rope/vocab={V}/causal=true/window={w}/bias=qkv",
        "mlp=geglu/norm=rms/eps=1e-05/place=sandwich/pos=rope/vocab={V}/tied=true/causal=true",
        "mlp=gelu/norm=layer/eps=1e-05/pos=learned/vocab={V}/tied=true/bias=all/causal=true",
        "mlp=silu/norm=rms/eps=1e-05/pos=rope/causal=true",
    ],
)
def test_theorems_of_transformers(choices: str) -> None:
    """The page's hypotheses have the same numbers on both sides as segre's."""
    rng = random.Random(7)
    text = "transformer/d={d}/layers={L}/heads={H}/kv={k}/head={a}/ff={f}/" + choices + "/t={t}"
    example = {"d": 60, "L": 3, "H": 6, "k": 3, "a": 10, "f": 99, "V": 999, "t": 77, "w": 33}
    found = of_transformer(Transformer.parse(text.format(**example)))
    assert found is not None
    outcomes = set()
    for _ in range(40):
        k = rng.randint(1, 6)
        at = {"d": rng.randint(4, 99), "L": rng.randint(1, 9), "k": k, "H": k * rng.randint(1, 4)}
        at |= {"a": 2 * rng.randint(1, 40), "f": rng.randint(1, 999), "V": rng.randint(9, 10**6)}
        at |= {"t": rng.randint(2, 10**4)}
        at |= {"w": rng.randint(1, at["t"])}
        spec = Transformer.parse(text.format(**at))
        applied = apply(spec)
        assert applied is not None
        sizes = {**at, "P": spec.parameters}
        assert [
            (one["name"], value(one["left"], sizes), value(one["right"], sizes))
            for one in found["hypotheses"]
        ] == [(one.name, one.left, one.right) for one in applied.hypotheses]
        counts = {name: value(tree, sizes) for name, tree in found["symmetries"].items()}
        assert {name: n for name, n in counts.items() if n} == applied.symmetries
        outcomes.add(applied.holds)
    assert False in outcomes


@pytest.mark.parametrize("kind", ["softmax", "lightning"])
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_theorems_of_stacks(kind: str, layers: int) -> None:
    rng = random.Random(layers)
    for _ in range(60):
        heads, dv = rng.choice([1, 1, 2, 5]), rng.choice([None, None, 3, 9])
        at = {"d": rng.randint(1, 12), "a": rng.randint(1, 12), "t": rng.randint(1, 9)}
        spec = Network.from_mapping(
            {"kind": kind, "layers": layers, "heads": heads, "dv": dv, **at}
        )
        found = of_stack(kind, layers, heads=heads > 1, factored=dv is not None)
        applied = apply(spec)
        assert (found is None) == (applied is None)
        if found is None or applied is None:
            continue
        sizes = {**at, "v": dv or 0, "G": heads - 1}
        assert [
            (value(one["left"], sizes), value(one["right"], sizes)) for one in found["hypotheses"]
        ] == [(one.left, one.right) for one in applied.hypotheses]
        counts = {name: value(tree, sizes) for name, tree in found["symmetries"].items()}
        assert {name: n for name, n in counts.items() if n} == applied.symmetries
