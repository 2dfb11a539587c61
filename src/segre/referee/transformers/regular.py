"""Is a minor of the real Jacobian certainly regular? Section 8, in ball arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flint import arb, arb_mat, ctx

from segre.referee.meter import balls, charge
from segre.referee.network import Progress
from segre.referee.rejection import RejectionError
from segre.referee.transformers.balls import Balls, UncertainError, real_input, real_weights
from segre.referee.transformers.content import MOST_BITS, BallMinor
from segre.referee.transformers.forward import record
from segre.referee.transformers.limits import check_bits
from segre.referee.transformers.numbers import Matrix, Numbers
from segre.referee.transformers.recording import Recording, gradients
from segre.referee.transformers.stages import sources
from segre.referee.transformers.tensors import Key, Tensors
from segre.referee.transformers.weights import Layout

# How a network is evaluated at an input, with given weights, over any numbers.
Recorder = Callable[[Numbers, Mapping[Key, Matrix]], Callable[[int], Recording]]


def check_ball_minor(layout: Layout, minor: BallMinor, progress: Progress) -> int:
    """Prove the minor of a transformer regular and return the bits that it took."""
    spec = layout.spec
    no_salts = [(0,) * spec.t] * sources(spec)

    def recorder(numbers: Numbers, weights: Mapping[Key, Matrix]) -> Callable[[int], Recording]:
        return lambda n: record(spec, numbers, weights, real_input(spec, minor.seed, n), no_salts)

    def afford(bits: int) -> None:
        check_bits(layout, minor, bits)

    return prove_minor(layout, minor, recorder, afford, progress)


def prove_minor(
    layout: Tensors,
    minor: BallMinor,
    recorder: Recorder,
    afford: Callable[[int], None],
    progress: Progress,
) -> int:
    """Prove a minor regular with as many bits as it takes; `afford` refuses what is too many."""
    bits = minor.bits
    while True:
        afford(bits)
        try:
            with ctx.workprec(bits):
                _prove(layout, minor, recorder, progress)
        except UncertainError as reason:
            if bits == MOST_BITS:
                raise RejectionError(f"lower: at {bits} bits, {reason}") from None
            bits = min(2 * bits, MOST_BITS)
        else:
            return bits


def _prove(layout: Tensors, minor: BallMinor, recorder: Recorder, progress: Progress) -> None:
    numbers = Balls()
    weights = layout.matrices(numbers, real_weights(layout, minor.seed))
    rows = gradients(layout, numbers, minor.rows, recorder(numbers, weights), progress)
    size = len(minor.rows)
    charge(size * size * numbers.rates.entry)
    entries = [rows[i, j] for i in range(size) for j in minor.columns]
    prove_regular(arb_mat(size, size, entries))


def prove_regular(A: arb_mat) -> None:
    """Every matrix in A is regular: A R is close to 1 for some R, or it is not certain.

    If all rows of 1 - A R have absolute sums below 1, then A R is regular, and so is A.
    """
    size, rates = A.nrows(), balls(ctx.prec)
    charge(3 * rates.matmul(size, size, size) + 2 * size * size * rates.entry)
    if not all(entry.is_finite() for entry in A.entries()):
        raise UncertainError("an entry of the Jacobian is not known at all")
    one = arb_mat(size, size, [int(i == j) for i in range(size) for j in range(size)])
    try:
        R = A.mid().solve(one, algorithm="approx").mid()  # R may be any matrix: no bounds needed
    except ZeroDivisionError:
        raise UncertainError("the minor is not certainly regular") from None
    product = (A * R).tolist()
    for i in range(size):
        product[i][i] -= 1
        if not sum((abs(entry) for entry in product[i]), arb(0)) < 1:
            raise UncertainError("the minor is not certainly regular")
