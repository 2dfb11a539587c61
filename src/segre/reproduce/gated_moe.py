"""What is gated attention, and what does the gate do to dimension, training and rank?

With a gate for every element, entry i of what a token x gets from attention is

    y_i = sum_h sum_k O_ik^h sigmoid((G^h x)_k) sum_j softmax_j(x, x_j) (V^h x_j)_k

a mixture of experts in two levels: the heads and entries k, gated by sigmoids, and within each
the tokens j, gated by a softmax. The gate acts on single entries of the values, so that of the
group GL(dv) between V and O only the dv scales are left. Hence the dimension, and hence the
conserved quantities of gradient flow: of V V' - O' O only the diagonal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from scipy.special import softmax

from segre.collapse.mechanisms import mechanism_study
from segre.fields.interface import Array
from segre.fields.real import Real
from segre.geometry.dimension import dimension
from segre.geometry.flow import integrate, loss_and_gradient
from segre.network import forward, named_tensors, stages
from segre.reproduce.claim import DERIVED, LIMITED, PAPER, Claim
from segre.reproduce.experiment import Experiment, Option, Run, Work
from segre.reproduce.found import Found, Mark, Panel, Seeds, Series, Table
from segre.reproduce.state import Kept
from segre.spec import Network

GATES = {"none": "no gate", "head": "a gate per head", "element": "a gate per element"}
DIMENSIONS = {  # sizes, and the dimension for each gate; an upper bound that meets the exact rank
    "softmax/d=4,4/a=2/dv=3/t=3": (27, 31, 45),
    "softmax/d=4,4/a=2/dv=3/heads=2/t=3": (54, 62, 90),
}
TRAINED = "softmax/d=4,4/a=2/dv=3/t=3"
DEEP = "softmax/d=4,4,4,4,4,4,4/a=2/t=4"


def spec_of(base: str, gate: str) -> Network:
    """The spec, with or without a gate."""
    head, _, t = base.rpartition("/t=")
    return Network.parse(f"{head}/gate={gate}/t={t}")


def weights_of(spec: Network, vector: Array) -> dict[str, Array]:
    """The tensors of the first layer, by name, heads first."""
    return named_tensors(stages(spec)[0], vector)


def mixture(spec: Network, vector: Array, X: Array) -> Array:
    """The two levels of experts, summed one by one; tokens are the columns of X."""
    w = weights_of(spec, vector)
    out = np.zeros((spec.widths[-1], X.shape[1]))
    for token, x in enumerate(X.T):
        for h in range(len(w["W_O"])):
            scores = (w["W_K"][h] @ X).T @ (w["W_Q"][h] @ x)
            inner = softmax(scores)  # the gate among tokens
            for k, o in enumerate(w["W_O"][h].T):
                outer = 1 / (1 + np.exp(-(w["W_G"][h] @ x)[k]))  # the gate of one entry
                values = (float(w["W_V"][h][k] @ other) for other in X.T)
                mixed = sum(share * v for share, v in zip(inner, values, strict=True))
                out[:, token] += o * outer * mixed
    return out


def identity_error(base: str, seed: int) -> float:
    """The largest difference between layer and mixture, relative to the largest entry."""
    spec = spec_of(base, "element")
    rng = np.random.default_rng([seed, 21])
    vector, X = rng.standard_normal(spec.parameters), rng.standard_normal((spec.width, spec.t))
    right = forward(Real(), spec, vector, X[None])[0]
    return float(abs(mixture(spec, vector, X) - right).max() / abs(right).max())


def drifts(gate: str, time: float, seed: int) -> dict[str, float]:
    """Largest changes along gradient flow, over the norms of the two sides at the start."""
    spec = spec_of(TRAINED, gate)
    rng = np.random.default_rng([seed, 22])
    start = rng.standard_normal(spec.parameters) * 0.7
    X = rng.standard_normal((24, spec.width, spec.t))
    Y = rng.standard_normal((24, spec.widths[-1], spec.t))

    def slope(w: Array) -> tuple[float, Array]:
        loss, gradient = loss_and_gradient(spec, w, X, Y)
        return loss, -gradient

    course = integrate(slope, start, time, 1e-11)
    found = {"loss": course[-1][2] / course[0][2]}
    points = [weights_of(spec, w) for _, w, _ in course]
    values = [one["W_V"][0] @ one["W_V"][0].T for one in points]
    sides = [one["W_O"][0].T @ one["W_O"][0] for one in points]
    size = float(np.linalg.norm(values[0]) + np.linalg.norm(sides[0]))
    moved = [(v - s) - (values[0] - sides[0]) for v, s in zip(values, sides, strict=True)]
    found["diagonal"] = max(float(abs(np.diag(one)).max()) for one in moved) / size
    found["others"] = max(float(abs(one - np.diag(np.diag(one))).max()) for one in moved) / size
    found["one side"] = max(float(abs(one - values[0]).max()) for one in values) / size
    return found


def run(given: Run) -> Found:
    """The identity, dimensions, gradient flow, and rank in depth."""
    identity = given.each_seed(
        "identity", lambda seed, _: max(identity_error(base, seed) for base in DIMENSIONS)
    )
    counts = {
        (base, gate): given.unit(f"dimension of {base}, gate {gate}", partial(_count, base, gate))
        for base in DIMENSIONS
        for gate in GATES
    }
    time = given.options["time"]
    flows = given.each_seed(
        "gradient flow", lambda seed, _: {gate: drifts(gate, time, seed) for gate in GATES}
    )
    ranks = given.each_seed("depth", _depth)
    notes = (
        "That the layer is a mixture of experts is the paper's statement. Dimensions, conserved "
        "quantities and exponents are derived here from the symmetry group that remains. Each "
        "dimension is proved by segre: the exact rank mod p meets the upper bound from "
        "symmetries.",
    )
    claims = _claims(identity, counts, flows, ranks)
    return Found(tuple(claims), _tables(counts, flows, ranks), _panels(flows, ranks), notes)


def _count(base: str, gate: str, _kept: Kept) -> dict[str, Any]:
    found = dimension(spec_of(base, gate))
    return {"value": found.value, "parameters": found.parameters}


def _depth(seed: int, _kept: Kept) -> dict[str, Any]:
    out = {}
    for gate in GATES:
        found = mechanism_study(spec_of(DEEP, gate).document(), seed=seed, inputs=1)
        out[gate] = {
            "relative": found.relative[0].tolist(),
            "exponent": float(np.mean([step.relative for step in found.steps])),
        }
    return out


def _claims(
    identity: Seeds, counts: dict[tuple[str, str], Any], flows: Seeds, ranks: Seeds
) -> Iterator[Claim]:
    said = {gate: label.capitalize() for gate, label in GATES.items()}
    still, moves, off = 1e-8, 1e-3, "change of V V' - O' O off the diagonal"
    yield LIMITED("Relative difference between the gated layer and the mixture of experts").at_most(
        1e-13, identity
    )
    for base, values in DIMENSIONS.items():
        for gate, value in zip(GATES, values, strict=True):
            found = counts[base, gate]["value"]
            measured = float("nan") if found is None else float(found)
            claim = DERIVED(f"Dimension of {base}, {GATES[gate]}")
            yield claim.near(value, [measured], tolerance=0)
    for gate in ("none", "head"):
        yield DERIVED(f"{said[gate]}: {off}").at_most(still, flows.of(gate, "others"))
    for gate in GATES:
        claim = DERIVED(f"{said[gate]}: change of V V' - O' O on the diagonal")
        yield claim.at_most(still, flows.of(gate, "diagonal"))
    yield DERIVED(f"{said['element']}: {off}").at_least(moves, flows.of("element", "others"))
    for gate in GATES:
        claim = DERIVED(f"{said[gate]}: exponent of the relative residual in one layer")
        expected = 3 if gate == "none" else 1
        yield claim.near(expected, ranks.of(gate, "exponent"), tolerance=0.01)
    yield DERIVED(
        "log10 of the relative residual after six layers: a gate per element minus no gate"
    ).at_least(50, [one["element"]["relative"][-1] - one["none"]["relative"][-1] for one in ranks])
    yield PAPER(
        "With the gate, polynomially many samples suffice; without it, exponentially many are "
        "needed"
    ).untestable("no experiment can show a rate of sample complexity")


def _tables(counts: dict[tuple[str, str], Any], flows: Seeds, ranks: Seeds) -> tuple[Table, ...]:
    dims = [(base, gate, one["parameters"], one["value"]) for (base, gate), one in counts.items()]
    names = ("loss", "one side", "diagonal", "others")
    flow = [(gate, *(max(flows.of(gate, name)) for name in names)) for gate in GATES]
    rank = [(gate, ranks.means(gate, "exponent"), *ranks.means(gate, "relative")) for gate in GATES]
    depth = len(ranks[0]["none"]["relative"])
    return (
        Table(
            "Dimension with and without a gate",
            "{architecture} {gate} {parameters:d} {dimension}",
            dims,
        ),
        Table(
            f"Gradient flow of {TRAINED}: largest changes over seeds",
            "{gate} {final / initial loss:.3f} {V V':.1e} {V V' - O' O, diagonal:.1e} "
            "{off-diagonal entries:.1e}",
            flow,
            note="Changes are relative to |V V'| + |O' O| at the start.",
        ),
        Table(
            f"{DEEP}: log10 of the relative residual by layer, means over seeds",
            ("gate", "exponent", *map(str, range(depth))),
            rank,
            ("", ".2f", *(".1f",) * depth),
        ),
    )


def _panels(flows: Seeds, ranks: Seeds) -> tuple[Panel, ...]:
    places = (0.0, 1.0, 2.0)
    kinds: tuple[tuple[str, str, Mark], ...] = (
        ("diagonal", "diagonal entries", "points"),
        ("others", "off-diagonal entries", "points"),
        ("one side", "V V' alone", "crosses"),
    )
    changes = [
        Series(label, places, [max(*flows.of(gate, name), 1e-17) for gate in GATES], mark)
        for name, label, mark in kinds
    ]
    means = {label: ranks.means(gate, "relative") for gate, label in GATES.items()}
    lines = [Series(label, range(len(mean)), mean) for label, mean in means.items()]
    gates = "gate: 0 none, 1 per head, 2 per element"
    flow = ("Change of V V' - O' O in gradient flow", gates, "largest relative change", changes)
    return (
        Panel(*flow, log_y=True, ticks=places),
        Panel("Rank by depth", "layer", "log10 of the relative residual", lines),
    )


EXPERIMENT = Experiment(
    name="gated-moe",
    title="Gated attention as a mixture of experts: dimension, conserved quantities, rank.",
    work=Work(
        "A Statistical Theory of Gated Attention through the Lens of Hierarchical Mixture of "
        "Experts",
        "Nguyen, Pham, Cao, Dinh, Nguyen, Ho, Rinaldo",
        2026,
        "2602.01468",
    ),
    question="What does a gate after attention change in dimension, in training and in depth?",
    run=run,
    examples=("gated-moe -o gate.png", "gated-moe -o longer.png --time 20"),
    options=(
        Option("time", float, 3.0, "Time for which gradient flow is followed.", 0.01, 1000.0),
    ),
    small={"time": 0.2},
    dimension_of=lambda row: (str(spec_of(row[0], row[1])), row[3]),
)
