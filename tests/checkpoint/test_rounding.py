"""What rounding can have done: spacings of types, what was rewritten, and rounding again."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from segre.checkpoint.commands import move
from segre.checkpoint.dtypes import FLOATS, rounded
from segre.checkpoint.model import Model
from segre.checkpoint.rounding import Rounded, differences, spacing
from support.checkpoints import rewritten
from support.zoo import save_tiny

Tensors = dict[str, np.ndarray]


@pytest.mark.parametrize("name", FLOATS)
def test_spacings_are_those_of_the_type(name: str) -> None:
    dtype, rng = FLOATS[name], np.random.default_rng(0)
    values = rng.standard_normal(2000) * np.exp(rng.uniform(-12, 4, 2000))
    stored = rounded(values, dtype).astype(np.float64)
    stored = stored[np.isfinite(stored) & (stored != 0)]
    step = spacing(stored, dtype)
    up = rounded(stored + step, dtype).astype(np.float64)
    assert (up[np.isfinite(up)] == (stored + step)[np.isfinite(up)]).all()
    # nothing lies between a number and the next one away from zero
    between = rounded(stored + np.sign(stored) * step * 0.49, dtype).astype(np.float64)
    assert (between == stored).all()
    assert ml_dtypes.finfo(dtype).nmant >= 2


def test_rounding_again_stays_within_half_a_spacing(tmp_path: Path) -> None:
    one = save_tiny("llama-bias", tmp_path / "one")
    move(one, tmp_path / "two", seed=1, report=False)
    with Model.open(one) as a, Model.open(tmp_path / "two") as b:
        found = differences(a, b)
        assert not found.in_place
        assert found.shared < 0.01
        again = Rounded.of(a, found, seed=3)
        for part in a.parts:
            for name, value in a.part(part).items():
                moved = again.part(part)[name]
                assert (np.abs(moved - value) <= spacing(value, np.dtype("f4")) / 2).all()
                assert (moved != value).any() or not value.any()
                assert (moved == again.part(part)[name]).all()  # the same each time


def test_what_was_kept_is_not_rounded_again(tmp_path: Path) -> None:
    """One unit rewritten, one entry changed elsewhere: nothing else can have been rounded."""

    def change(part: str, w: Tensors) -> None:
        if part == "2":
            w["W_up"][5] *= 3
            w["W_down"][:, 5] /= 3
            w["W_gate"][7, 11] *= 1.001

    one = save_tiny("llama", tmp_path / "one")
    two = rewritten(one, tmp_path / "two", change)
    with Model.open(one) as a, Model.open(two) as b:
        found = differences(a, b)
        assert found.in_place
        assert found.stray == 1
        again = Rounded.of(b, found, seed=0)
        for part in b.parts:
            for name, value in b.part(part).items():
                moved = again.part(part)[name] != value
                if (part, name) == ("2", "W_up"):
                    assert moved[5].all()
                    assert moved.sum() == moved[5].sum()
                elif (part, name) == ("2", "W_down"):
                    assert moved[:, 5].all()
                    assert moved.sum() == moved[:, 5].sum()
                elif (part, name) == ("2", "W_gate"):
                    assert np.argwhere(moved).tolist() == [[7, 11]]
                elif not (part == "2" and value.shape[-1] == 1):  # vectors go with their part
                    assert not moved.any(), (part, name)
