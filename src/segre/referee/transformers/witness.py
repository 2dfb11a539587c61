"""Do the minors and witnesses mod p hold? Sections 6 and 7: lower, independence and roots."""

from __future__ import annotations

from collections.abc import Sequence

from flint import nmod_mat

from segre.referee.linear import determinant, select
from segre.referee.meter import charge
from segre.referee.network import Progress
from segre.referee.rejection import RejectionError
from segre.referee.transformers.content import Independence, ModularMinor, Root
from segre.referee.transformers.modular import NoRootError
from segre.referee.transformers.numbers import Salts
from segre.referee.transformers.point import Anywhere
from segre.referee.transformers.recording import Recording, gradients


def jacobian_mod_p(
    point: Anywhere,
    rows: Sequence[tuple[int, int]],
    salts: dict[int, tuple[tuple[int, ...], ...]],
    progress: Progress,
) -> nmod_mat:
    """Rows of the Jacobian mod p, each input with its salts."""

    def recorded(n: int) -> Recording:
        return point.record(point.matrices, point.input(n, salts[n]), salts[n])

    result: nmod_mat = gradients(point.tensors, point.field, rows, recorded, progress)
    return result


def check_minor(point: Anywhere, minor: ModularMinor, progress: Progress) -> None:
    """The determinant of the minor is as claimed, and so not zero."""
    rows = jacobian_mod_p(point, minor.rows, minor.salts, progress)
    found = determinant(select(rows, range(len(minor.rows)), minor.columns))
    if found != minor.determinant:
        raise RejectionError(
            f"lower.determinant: {minor.determinant}, but the minor is {found} mod p"
        )


def check_independence(point: Anywhere, claimed: Independence, progress: Progress) -> None:
    """The determinant of the witness points is as claimed, and so not zero."""
    size = len(claimed.points)
    table = nmod_mat(size, size, point.p)
    charge(size * size * point.field.rates.entry)
    for i, (number, pair) in enumerate(zip(claimed.points, claimed.salts, strict=True)):
        for j, entry in enumerate(_differences(point, number, pair)):
            table[i, j] = entry
        progress("witness points", i + 1, size)
    found = determinant(table)
    if found != claimed.determinant:
        raise RejectionError(
            f"independence.determinant: {claimed.determinant}, but it is {found} mod p"
        )


def _differences(
    point: Anywhere, number: int, salts: tuple[Sequence[Salts], Sequence[Salts]]
) -> list[int]:
    """The row of a witness point: differences of all arguments, and of all input entries."""
    layout, field = point.tensors, point.field
    weights = layout.matrices(field, field.witness_weights(number, layout.parameters))
    rows = []
    for b in (0, 1):
        X = field.input(2 * number + b, point.rows, salts[b][0], witness=True)
        arguments = point.record(weights, X, salts[b]).arguments
        rows.append([int(entry) for entry in (*arguments, *X.entries())])
    return [(x - y) % point.p for x, y in zip(*rows, strict=True)]


def check_roots(point: Anywhere, roots: Sequence[Root], progress: Progress) -> None:
    """Every radicand is, at some input, the first one without a root, and not zero."""
    unsalted = [(0,) * point.tokens] * point.sources
    for i, root in enumerate(roots):
        name = f"roots[{i}]"
        salts = [*root.salts, *unsalted[len(root.salts) :]]
        try:
            point.record(point.matrices, point.input(root.input, salts), salts)
        except NoRootError as found:
            if found.place != root.place:
                place = found.place
                raise RejectionError(
                    f"{name}: the first radicand without a root is stage {place.stage}, root "
                    f"{place.root}, entry {place.entry}"
                ) from None
            if found.value == 0:
                raise RejectionError(f"{name}: this radicand is zero mod p") from None
        else:
            raise RejectionError(f"{name}: all radicands have roots at this input")
        progress("radicands", i + 1, len(roots))
