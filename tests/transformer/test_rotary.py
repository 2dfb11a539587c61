"""Rescaled rotary frequencies: those of the transformers library, in every field."""

import random
from fractions import Fraction
from itertools import product
from math import isclose
from typing import Any

import numpy as np
import pytest
import torch
from bench.double import Double
from flint import arb
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from segre.errors import SpecError
from segre.fields import Ball, Prime, Real
from segre.fields.circle import Frequencies, commensurable
from segre.kernel import constants as angles
from segre.models.rope import rope_rescale
from segre.transformer.rescale import rescale
from segre.transformer.rotary import frequencies
from segre.transformer.spec import Transformer


def random_rope(rng: random.Random, width: int = 8) -> dict[str, Any]:
    """Any rescaling, with the numbers of real models or with odd ones."""
    kind = rng.choice(["linear", "dynamic", "llama3", "yarn", "longrope"])
    out: dict[str, Any] = {
        "rope_type": kind,
        "rope_theta": rng.choice([7.5, 1e4, 5e5, 999999.4420358813]),
    }
    out["factor"] = rng.choice([1.0, 2.0, 4.5, 32.0])
    if kind in ("llama3", "yarn", "longrope"):
        out["original_max_position_embeddings"] = rng.choice([2, 40, 4096, 8192])
    if kind == "llama3":
        low = rng.choice([0.5, 1.0])
        out |= {"low_freq_factor": low, "high_freq_factor": low * rng.choice([2.0, 4.0])}
    if kind == "longrope":
        for key in ("short_factor", "long_factor"):
            out[key] = [rng.choice([1.0, 1.05, 2.5, 64.83999633789062]) for _ in range(width // 2)]
        out |= rng.choice([{}, {"attention_factor": 1.2}])
    if kind == "yarn" and rng.random() < 0.7:
        out |= {"beta_fast": rng.choice([4, 16.0]), "beta_slow": rng.choice([0.5, 2])}
    if kind == "yarn":
        out |= rng.choice([{}, {"attention_factor": 1.2}, {"mscale": 0.8, "mscale_all_dim": 0.4}])
    return out


def spec_of(rope: dict[str, Any], width: int, length: int, t: int) -> Transformer:
    text = rope_rescale({"rope_parameters": rope}, length) or "none"
    base = rope["rope_theta"]
    return Transformer.parse(
        f"transformer/d={width}/pos=rope/base={base}/rescale={text}/causal=true/t={t}"
    )


@pytest.mark.parametrize("seed", range(20))
def test_bases_need_not_be_whole(seed: int) -> None:
    """Powers of small fractions, so that angles are often commensurable: both sides find it."""
    rng = random.Random(seed)
    for _ in range(10):
        base = Fraction(rng.randint(1, 9), rng.randint(1, 9)) ** rng.randint(1, 6)
        if not 2 <= base <= 10**9:
            continue
        planes = rng.randint(1, 6)
        spec = Transformer.parse(f"transformer/d={2 * planes}/pos=rope/base={base}/t=3")
        assert spec.base == base
        assert Transformer.parse(str(spec)) == spec
        assert Transformer.from_mapping(spec.document()) == spec
        found = frequencies(spec).multiples()
        assert found == angles.multiples(spec)
        speeds = frequencies(spec).floats()
        for i, j in product(range(planes), repeat=2):
            if found[i][0] == found[j][0]:  # the same class: a rational quotient
                quotient = found[i][1] / found[j][1]
                assert isclose(speeds[i] / speeds[j], quotient, rel_tol=1e-12)
            else:  # no power of the quotient below base^(1 / planes) is rational
                assert not isinstance(exact_root(base ** abs(i - j), planes), Fraction)


def exact_root(value: Fraction, degree: int) -> Fraction | None:
    """The root of a fraction, if it is one."""
    found = [round(x ** (1 / degree)) for x in (value.numerator, value.denominator)]
    root = Fraction(*found)
    return root if root**degree == value else None


@pytest.mark.parametrize("seed", range(60))
def test_frequencies_and_amplitudes_are_those_of_the_library(seed: int) -> None:
    rng = random.Random(seed)
    width, length = rng.choice([4, 8, 64, 128]), rng.choice([64, 8192])
    rope = random_rope(rng, width)
    t = rng.choice([3, length, 3 * length])
    spec = spec_of(rope, width, length, t)
    config = LlamaConfig(head_dim=width, max_position_embeddings=length, rope_parameters=rope)
    with Double():
        init = ROPE_INIT_FUNCTIONS[rope["rope_type"]]
        theirs, amplitude = init(config, torch.device("cpu"), seq_len=t)
    ours = frequencies(spec)
    np.testing.assert_allclose(ours.floats(), theirs.numpy(), rtol=1e-12)
    growth = (Fraction(1),) if spec.rescaling is None else spec.rescaling.growth
    assert isclose(Real().absorbed(*growth).item(), amplitude, rel_tol=1e-12)
    field = Ball(128)
    with field.precision():
        cos, sin = field.turns(ours, 2)
        assert cos.shape == sin.shape == (width // 2, 2)
        for j in (0, width // 2 - 1):
            assert arb.abs_lower(cos[j, 1]) <= 1
            assert isclose(float(cos[j, 1].mid()), np.cos(ours.floats()[j]), abs_tol=1e-12)
        assert field.absorbed(*growth).item().overlaps(arb(amplitude, 1e-12))


@pytest.mark.parametrize("seed", range(40))
def test_rescaled_angles_that_are_commensurable_are_whole_multiples(seed: int) -> None:
    rng = random.Random(seed)
    width = rng.choice([4, 8, 12])
    rope = random_rope(rng, width) | {"rope_theta": rng.choice([16.0, 100.0, 1e4, 7.0])}
    speed = frequencies(spec_of(rope, width, 64, 5))
    found, angles = speed.multiples(), speed.floats()
    if not speed.commensurable:
        assert found == tuple((j, 1) for j in range(speed.planes))
        return
    for number in {number for number, _ in found}:
        unit = {a / n for a, (c, n) in zip(angles, found, strict=True) if c == number}
        assert np.ptp(list(unit)) < 1e-12 * max(unit)
    # what is not rescaled has the classes that it had
    plain = commensurable(speed.base, speed.planes)
    assert [c for c, _ in found] == [c for c, _ in plain]
    assert Frequencies(speed.base, speed.planes).multiples() == plain


def test_angles_mod_p_of_rescaled_frequencies_add() -> None:
    F = Prime()
    cos, sin = F.turns(
        frequencies(
            spec_of(
                {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "original_max_position_embeddings": 40,
                    "rope_theta": 16.0,
                },
                8,
                64,
                6,
            )
        ),
        6,
    )
    assert (F.residues(F.add(F.mul(cos, cos), F.mul(sin, sin))) == 1).all()
    added = F.sub(F.mul(cos[:, 2:3], cos[:, 3:4]), F.mul(sin[:, 2:3], sin[:, 3:4]))
    assert (F.residues(added) == F.residues(cos[:, 5:6])).all()


@pytest.mark.parametrize("seed", range(40))
def test_rescalings_read_back(seed: int) -> None:
    """As text, and as a spec."""
    rope = random_rope(random.Random(seed))
    spec = spec_of(rope, 8, 64, 3)
    assert Transformer.parse(str(spec)) == spec
    assert Transformer.from_mapping(spec.document()) == spec
    if spec.rescaling is not None:
        assert str(rescale(spec.rescale)) == spec.rescale


@pytest.mark.parametrize(
    "text",
    [
        "ntk:4",
        "linear",
        "linear:0.5",
        "linear:4:4",
        "linear:four",
        "linear:1e999999999",
        "linear:4:fast=2",
        "dynamic:4",
        "dynamic:4:0",
        "llama3:8:4:1:8192",
        "llama3:8:0:1:8192",
        "yarn:4",
        "yarn:4:4096:fast=0",
        "yarn:4:4096:fast=2:fast=2",
        "yarn:fast=2:4:4096",
        "yarn:4:4096:truncate=2",
        "longrope:4:4096",
        "longrope:4:4096:short=1+1+1+1",
        "longrope:4:4096:short=1+1:long=2+2",
        "longrope:4:4096:short=1+1+1+0:long=1+1+1+1",
        "longrope:4:4096:short=1+1+1+1:long=1+1+1",
        "longrope:4:1:short=1+1+1+1:long=1+1+1+1",
        "longrope:4:4096:short=1+1+1+1:long=1+1+1+1:fast=2",
        "yarn:4:" + "9" * 300,
        "yarn:4:4096" + ":" * 30_000,
    ],
)
def test_what_is_no_rescaling_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="rescale"):
        Transformer.parse(f"transformer/d=8/pos=rope/rescale={text}/t=3")
