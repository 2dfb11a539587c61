"""Networks that divide 0 by 0 whatever their weights are: said so, and only of these."""

import random
import warnings

import numpy as np
import pytest

from segre.errors import SpecError, UnsupportedError
from segre.fields.prime import Prime
from segre.fields.rank import Echelon
from segre.fields.real import Real
from segre.geometry.dimension import dimension
from segre.geometry.point import undefined_stage
from segre.models import architecture
from segre.network import forward

NAMED = (
    "transformer/d=3/head=2/t=2/vocab=3/norm=layer/place=post/embed=1/embnorm=true",
    "transformer/d=3/head=2/t=2/vocab=3/norm=layer/embed=1/embnorm=true",
    "transformer/d=1/norm=layer/t=2",
    "mix/d=2,2,2/a=1/heads=gapless,softmax:unit=sphere/t=1",
    "mix/d=2,2,2/a=1/heads=gapless,linear:feature=none/t=1",
)


@pytest.mark.parametrize("spec", NAMED)
@pytest.mark.parametrize("seed", [7])
def test_no_seed_is_asked_for(spec: str, seed: int) -> None:
    with pytest.raises(UnsupportedError, match="not defined for any weights") as error:
        dimension(spec, seed=seed)
    assert "seed" not in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("eps", ["0.1", "1/100"])
@pytest.mark.parametrize("place", ["pre", "post"])
def test_with_eps_they_are_defined(eps: str, place: str) -> None:
    """A norm of one number is then zero: nothing that reads it depends on anything."""
    spec = f"transformer/d=3/head=2/t=2/vocab=3/norm=layer/place={place}/eps={eps}"
    found = dimension(f"{spec}/embed=1/embnorm=true")
    assert found.lower is not None


def random_design(chance: random.Random) -> str:
    """Small designs, many of which divide 0 by 0."""
    pick = chance.choice
    if chance.random() < 0.4:
        first = pick(("gapless", "gapless", "softmax", "lightning", "linear"))
        second = pick(("softmax:unit=sphere", "linear:feature=none", "fast", "double", "softmax"))
        return f"mix/d={pick('12')},2,2/a=2/heads={first},{second}/t={pick('112')}"
    tokens = "/vocab=3/embed=1/embnorm=true" if chance.random() < 0.4 else ""
    norm, eps = pick(("layer", "layer", "rms")), pick(("0", "0", "0.1"))
    choices = f"norm={norm}/place={pick(('pre', 'post'))}/eps={eps}"
    rest = pick(("", "/residual=false", "/mlp=gelu/ff=1"))
    return f"transformer/d={pick('112')}/head=1/{choices}{tokens}{rest}/t={pick('112')}"


def test_floats_agree() -> None:
    """An independent witness: in float64 these networks, and no others, have no value."""
    chance = random.Random(0)
    undefined = 0
    for seed in range(200):
        try:
            spec = architecture(random_design(chance))
        except SpecError:
            continue
        rng = np.random.default_rng(seed)
        if spec.discrete:
            X = np.eye(spec.width_in)[:, rng.integers(0, spec.width_in, spec.t)]
        else:
            X = rng.standard_normal((spec.width_in, spec.t))
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            values = forward(Real(), spec, rng.standard_normal(spec.parameters), X)
        found = undefined_stage(spec, seed)
        assert (found is not None) == (not np.isfinite(values).all()), str(spec)
        undefined += found is not None
    assert 20 < undefined < 100


def test_no_rows_leave_a_span_as_it_is() -> None:
    """The fault behind one crash: a batch without rows."""
    space = Echelon(3, Prime())
    assert space.add(np.zeros((0, 3))) == 0
    assert space.add(np.eye(3)[:2]) == 2
    assert space.add(np.zeros((0, 3))) == 0
    assert space.rank == 2
