"""The same function has the same bounds, however it is written."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from segre.certificate import certify
from segre.geometry.dimension import Proof, prove
from segre.kernel import verify
from segre.models import architecture
from segre.spec import Network


def random_plain(seed: int, count: int, most: int = 90, *, square: bool = False) -> Iterator[str]:
    """Plain stacks with several heads, as inline strings; `square` ones have a single width."""
    rng = random.Random(seed)
    while count:
        kind, depth = rng.choice(["softmax", "lightning", "lightning"]), rng.choice([1, 1, 2])
        heads, dv = rng.randint(1, 3), rng.randint(1, 3)
        if square:
            sizes = f"d={rng.randint(1, 4)}/layers={depth}/a={rng.randint(1, 3)}"
        else:
            widths = ",".join(str(rng.randint(1, 4)) for _ in range(depth + 1))
            sizes = f"d={widths}/a={','.join(str(rng.randint(1, 3)) for _ in range(depth))}"
        inner = f"/dv={dv}" if square or rng.random() < 0.5 else ""
        text = f"{kind}/{sizes}/heads={heads}{inner}/t={rng.randint(1, 4)}"
        if architecture(text).parameters <= most:
            count -= 1
            yield text


def bounds(spec: object) -> tuple[int, int]:
    found = prove(architecture(spec), formula=False)
    return found.lower.value, found.upper.value


@pytest.mark.parametrize("seed", range(4))
def test_spellings_of_a_stack_are_one_stack(seed: int, tmp_path: Path) -> None:
    for text in random_plain(seed, 12):
        spec = Network.parse(text)
        by_head = spec.by_head()
        assert by_head["kind"] == "mix"
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(by_head))
        # a window that hides nothing does not change the function, but the stack is not plain
        hidden = f"window={spec.t - 1}"
        wide = {**by_head, "heads": [_with(text, hidden) for text in by_head["heads"]]}
        assert architecture(by_head) == architecture(path) == spec
        assert not architecture(wide).plain
        assert bounds(wide) == bounds(spec), text


def _with(heads: str, option: str) -> str:
    name, times, count = heads.partition("*")
    return f"{name}:{option}{times}{count}"


@pytest.mark.parametrize("seed", range(4))
def test_a_stack_as_a_transformer_has_the_same_bounds(seed: int) -> None:
    for text in random_plain(100 + seed, 12, square=True):
        layer = (spec := Network.parse(text)).layers[0]
        other = (
            f"transformer/d={spec.width}/layers={spec.depth}/heads={layer.heads}/head={layer.a}/"
            f"dv={layer.dv}/attn={spec.score}/residual=false/t={spec.t}"
        )
        assert bounds(spec) == bounds(other), text


def test_options_without_effect_do_not_change_bounds() -> None:
    for text in random_plain(33, 10, 60):
        spec = Network.parse(text)
        by_head = spec.by_head()
        for option in (f"window={spec.t + 3}", f"local={spec.t}"):
            heads = [_with(one, option) for one in by_head["heads"]]
            assert bounds({**by_head, "heads": heads}) == bounds(spec), (text, option)


def test_the_example_of_a_gap_is_proved() -> None:
    stack = "lightning/d=3,3/a=3/heads=3/dv=3/t=4"
    other = "transformer/d=3/heads=3/head=3/dv=3/attn=lightning/residual=false/t=4"
    assert bounds(stack) == bounds(other) == (45, 45)
    assert verify(certify(other, method="exact")).valid


def test_plain_stacks_have_certificates_that_hold() -> None:
    """Never below what is proved."""
    for text in [*random_plain(7, 16, 60), "lightning/d=3,3/a=3/heads=3/dv=3/t=4"]:
        proof: Proof = prove(architecture(text))
        document = certify(text, method="exact")
        assert verify(document).valid, text
        assert document["claim"]["lower"] == proof.lower.value
        if document["claim"]["status"] != "certain":
            assert document["claim"]["upper"] >= proof.upper.value
