"""Words and colours shared by static and interactive pictures."""

from __future__ import annotations

from typing import Any

from segre.geometry.slices import Discriminant, FiberCurve, Placed

BLUE, ORANGE, RED, GREEN, GREY = "#1f5fa8", "#c26a12", "#b3202c", "#2b7a3d", "#6a6a6a"
_STRATA = {"fold": RED, "crossing sheets": ORANGE, "rank drop of A": "#7b3fa0", "smooth": GREEN}

CONE: dict[str, Any] = {
    "title": "Functions of one attention layer, V ⊗ A: the cone over the Segre variety",
    "linear": "linear section z12 = z21: its vertex, the zero function, is singular",
    "linear axes": ("z11 - z22", "2 z12", "z11 + z22"),
    "affine": "affine section z11 + z22 = 1: ruled by lines of constant V (blue) and constant A "
    "(orange)",
    "affine axes": ("z11 - z22", "z12 + z21", "z12 - z21"),
}
DISCRIMINANT = {
    "title": "d = 2, V = u wᵀ, A = k qᵀ, q fixed: the quadratics (w·x)(k·x) = aX² + bXY + cY²",
    "outside": "products of two real linear forms, b² ≥ 4ac: reached",
    "inside": "definite forms: in the Zariski closure, reached by no real weights",
    "wall": "boundary b² = 4ac, w parallel to k: the parametrisation folds",
    "x": "(a - c) / (a + c)",
    "y": "b / (a + c)",
}


def fiber_outputs(curve: FiberCurve) -> str:
    """How much the outputs change along a fiber."""
    return f"outputs along the curve: they change by {curve.deviation:.0e} (rounding)"


def reach_of(cut: Discriminant) -> float:
    """Half the width of the drawing, large enough for every point."""
    return max([1.9, *(1.15 * max(abs(p.x), abs(p.y)) for p in cut.placed)])


def point_colour(point: Placed) -> str:
    """One colour per stratum."""
    reasons = point.stratum.reasons
    return _STRATA[reasons[-1] if reasons else "fold" if point.stratum.boundary else "smooth"]


def point_words(point: Placed) -> str:
    """The stratum in words."""
    words = ", ".join(point.stratum.reasons) or "smooth"
    return words + (", boundary" if point.stratum.boundary else "")
