"""What a checkpoint is, and facts about its weights: counted by formulas, or measured.

Measured are weights after norms are folded in and free choices taken off (`reduced`): they are
what the model computes with. Layers, heads and units are counted from 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from segre.checkpoint.dtypes import dtype_name
from segre.checkpoint.model import Model
from segre.checkpoint.overflow import on_models
from segre.checkpoint.reduce import Reduced, reduced
from segre.checkpoint.strata import Units, listed, special_points, units_of
from segre.checkpoint.units import SHARED, UNITS, kinds
from segre.errors import UnsupportedError
from segre.fields.interface import Array
from segre.fields.threads import threads_for
from segre.finding import Finding
from segre.geometry.at_any_size import counted
from segre.geometry.progress import Progress, quiet
from segre.json_data import stated
from segre.models import Source
from segre.models.registry import from_config
from segre.shown import Tabular
from segre.symmetry.balance import DEFICIENT
from segre.symmetry.basis import Basis
from segre.symmetry.constants import Constants
from segre.transformer.spec import Transformer

DEGENERATE = 1e6  # heads with larger condition numbers are named


@dataclass(frozen=True)
class Product:
    """The product of two factors of a query head, by its singular values, largest first."""

    singular_values: tuple[float, ...]
    rank: int  # how many are not lost in rounding: larger than the roundoff of the largest

    @property
    def full(self) -> bool:
        """Whether no rank is lacking."""
        return self.rank == len(self.singular_values)

    @property
    def condition(self) -> float | None:
        """The largest singular value over the smallest that is not zero; a zero has none."""
        sigma = self.singular_values
        if sigma[0] == 0:
            return None
        return sigma[0] / min(x for x in sigma if x > DEFICIENT * sigma[0])

    @property
    def norm(self) -> float:
        """The Frobenius norm."""
        return float(np.linalg.norm(self.singular_values))

    @property
    def stable_rank(self) -> float:
        """The square of the Frobenius norm over that of the largest singular value."""
        largest = self.singular_values[0]
        return (self.norm / largest) ** 2 if largest else 0.0

    def document(self) -> dict[str, Any]:
        """As plain data; of the singular values, the first and the last."""
        sigma = self.singular_values
        made = {"full_rank": len(sigma), "largest": sigma[0], "smallest": sigma[-1]}
        return stated(self, "rank condition norm stable_rank", **made)


@dataclass(frozen=True)
class Norms:
    """The stored gauge around the norms of a part, which does not affect the function."""

    gains: tuple[float, float] | None  # smallest and largest modulus of those that can be absorbed
    shift: float | None  # the largest entry of a bias that can be absorbed
    unseen: dict[str, float]  # share of tensors that nobody sees: its norm over the tensor's


@dataclass(frozen=True)
class Gauge:
    """How far the stored gauge of a layer is from balanced."""

    vo: float  # condition number of the basis of values, the largest over heads
    qk: float | None  # likewise of queries and keys, where nothing turns
    planes: float | None  # rotary planes: largest |log2| of a factor of keys against queries
    units: float | None  # units with a free scale: largest |log2| of the factor of what they read
    norms: Norms


@dataclass(frozen=True)
class LayerInfo:
    """What is measured in one layer.

    OV is W_O W_V of each query head. QK is W_Q' W_K: for heads that turn, at distance 0; where
    queries and keys are normed, with the gains of both norms and without the norms themselves. For
    latent attention both are maps of the latents, and QK is without what turns.
    Biases and the constant scale of the scores are left out.
    """

    number: int
    ov: tuple[Product, ...]
    qk: tuple[Product, ...]
    gauge: Gauge
    units: Units | None  # of experts one after the other
    shared: Units | None  # of shared experts
    special: tuple[str, ...]  # in words, where these weights have more symmetries than counted

    def document(self) -> dict[str, Any]:
        """As plain data."""
        made: dict[str, Any] = {"layer": self.number, "gauge": asdict(self.gauge)}
        made |= {"OV": [x.document() for x in self.ov], "QK": [x.document() for x in self.qk]}
        made["units"] = None if self.units is None else asdict(self.units)
        if self.shared is not None:
            made["shared_units"] = asdict(self.shared)
        return stated(self, "special", **made)


@dataclass(frozen=True)
class Info(Tabular):
    """A checkpoint: its architecture, its redundant parameters (counted), its layers (measured)."""

    name: str  # its directory and the one above
    family: str
    spec: Transformer
    stored: int  # parameters in the files, of which some may be copies or unused
    nbytes: int
    types: dict[str, int]  # how many numbers of each type are stored
    files: tuple[str, ...]
    copies: tuple[str, ...]
    unused: tuple[str, ...]
    roundoff: float  # of the types of the weights
    redundancy: Finding | None
    uncounted: str | None  # why not, if redundancy is not counted
    ends: dict[str, Norms]
    layers: tuple[LayerInfo, ...]

    @property
    def parameters(self) -> int:
        """Distinct parameters."""
        return self.spec.parameters

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        redundancy: dict[str, Any] = {"counted": False, "reason": self.uncounted}
        if self.redundancy is not None:
            found = self.redundancy.document()
            kept = {key: found[key] for key in ("spec", "symmetries", "notes")}
            redundancy = {"counted": True, **kept, **found.get("redundancy", {"total": 0})}
        ends = {part: asdict(norms) for part, norms in self.ends.items()}
        return stated(
            self,
            "name family types files copies unused",
            spec=str(self.spec),
            parameters={"stored": self.stored, "distinct": self.parameters},
            bytes=self.nbytes,
            redundancy=redundancy,
            measured=stated(self, "roundoff layers", ends=ends),
        )


@on_models(1)
def info(directory: Source, progress: Progress = quiet) -> Info:
    """The pieces of a checkpoint, its redundant parameters, and measurements of its weights.

    One part of the weights is in memory at a time.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.checkpoint.example import example
    >>> with TemporaryDirectory() as folder:
    ...     model = example(f"{folder}/model")
    ...     found = info(model)
    >>> found.parameters, len(found.layers), found.redundancy.redundancy["total"]
    (1176, 2, 140)
    """
    model: Model = directory
    ends, layers = {}, []
    roundoff = model.roundoff()
    for done, found in enumerate(reduced(model, measured=True)):
        progress("measuring", done, len(model.parts))
        if found.part in ("embed", "head"):
            ends[found.part] = _norms(found)
        else:
            with threads_for(model.spec.head):
                layers.append(_layer(model.spec.at(found.part), found, roundoff))
    store, path = model.store, Path(model.name)
    types: Counter[str] = Counter()
    for entry in store.entries.values():
        types[dtype_name(entry.dtype)] += entry.size
    asked = from_config(store.config, store.name).output  # logits, or a distribution
    redundancy, uncounted = None, None
    try:
        redundancy = counted(model.spec.with_output(asked))
    except UnsupportedError as error:
        uncounted = str(error)
    return Info(
        name=path.resolve().name if path.exists() else model.name,
        family=model.family,
        spec=model.spec,
        stored=store.parameters,
        nbytes=store.nbytes,
        types=dict(types),
        files=tuple(dict.fromkeys(entry.file for entry in store.entries.values())),
        copies=tuple(model.copies),
        unused=model.unused,
        roundoff=roundoff,
        redundancy=redundancy,
        uncounted=uncounted,
        ends=ends,
        layers=tuple(layers),
    )


# --- one layer --------------------------------------------------------------------------------


def _layer(spec: Transformer, found: Reduced, roundoff: float) -> LayerInfo:
    w = found.tensors
    ov = _products(w["W_O"], w["W_V"].swapaxes(-1, -2), roundoff)
    Q, K = w["W_Q"], w["W_K"]
    if spec.qknorm:
        Q, K = Q * w["normq.gain"], K * w["normk.gain"]
    qk = _products(Q.swapaxes(-1, -2), K.swapaxes(-1, -2), roundoff)
    units = {kind: units_of(spec, w, kind) for kind in kinds(w)}
    special = (
        *_special_heads("OV", ov, roundoff),
        *_special_heads("QK", qk, roundoff),
        *(point.text for point in special_points(spec, found, units)),
    )
    return LayerInfo(
        int(found.part), ov, qk, _gauge(found), units.get(UNITS), units.get(SHARED), special
    )


def _products(left: Array, right: Array, roundoff: float) -> tuple[Product, ...]:
    """left @ right' by query head, from factors (kv, group or 1, d, k): no d x d matrices."""
    one, two = (np.asarray(np.linalg.qr(factor, mode="r")) for factor in (left, right))
    sigma = np.linalg.svd(one @ two.swapaxes(-1, -2), compute_uv=False)
    sigma = sigma.reshape(-1, sigma.shape[-1])
    ranks = (sigma > max(roundoff, DEFICIENT) * sigma[:, :1]).sum(axis=1)
    return tuple(Product(tuple(s.tolist()), int(r)) for s, r in zip(sigma, ranks, strict=True))


def _gauge(found: Reduced) -> Gauge:
    """How far the removed elements are from the identity, by the tensors that they act on."""

    def elements(*names: str) -> Iterator[Array]:
        for one, element in found.move:
            if isinstance(one, Basis) and one.ports[0].tensor[1] in names:
                yield element

    qk = [_condition(x) for x in elements("W_K") if x.ndim > 2]
    planes = [_largest_log(x) for x in elements("W_K", "R_K", "normk.gain") if x.ndim < 3]
    units = [_largest_log(x) for x in elements("W_gate", "W_up")]
    return Gauge(
        vo=max(_condition(x) for x in elements("W_V")),
        qk=max(qk, default=None),
        planes=max(planes, default=None),
        units=max(units, default=None),
        norms=_norms(found),
    )


def _condition(matrices: Array) -> float:
    return float(np.linalg.cond(matrices).max())


def _largest_log(factors: Array) -> float:
    return float(np.abs(np.log2(np.abs(factors))).max())


def _norms(found: Reduced) -> Norms:
    gains, shifts = [], []
    for one, element in found.move:
        if isinstance(one, Basis) and (vector := one.vector) and not vector.reads:
            gains.append(np.abs(1 / element))
        part, name = one.sources[-1].tensor if isinstance(one, Constants) else ("", "")
        if part == found.part and name.endswith((".bias", "b_E", "positions")):
            shifts.append(float(np.abs(element).max()))
    return Norms(
        (float(min(g.min() for g in gains)), float(max(g.max() for g in gains))) if gains else None,
        max(shifts, default=None),
        {
            name: share
            for (part, name), share in found.shares.items()
            if part == found.part and not name.startswith("b_")
        },
    )


def _special_heads(name: str, heads: tuple[Product, ...], roundoff: float) -> Iterator[str]:
    limit = min(DEGENERATE, 1 / roundoff)
    lacking = np.array([not head.full for head in heads])
    near = np.array([(head.condition or 1.0) > limit for head in heads]) & ~lacking
    for chosen, how in ((lacking, ""), (near, "nearly ")):
        if chosen.any():
            yield f"{name} is {how}rank-deficient in heads {listed(np.flatnonzero(chosen))}"
