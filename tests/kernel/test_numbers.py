"""Residues, balls and their linear algebra, against whole numbers of Python."""

import random
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx, nmod_mat

from segre.kernel.balls import Balls, UncertainError
from segre.kernel.document import RejectionError
from segre.kernel.graph import Choice
from segre.kernel.linear import annihilator, determinant, rank, row_basis
from segre.kernel.residues import NoRootError, Residues, Stream
from support.scalar_transformer import u

PRIMES = (65537, 8388593, 2147483629, 2147483647)
NO_SALTS = np.zeros((1, 1), np.uint64)


@pytest.mark.parametrize("seed", [0, 5, 2**64 - 1])
def test_streams(seed: int) -> None:
    indices = [0, 1, 77, 2**40, 2**63, 2**64 - 1]
    for number in (0, 3, 12):
        found = Stream(seed, number)(np.array(indices, np.uint64)).tolist()
        assert found == [u(seed, number, i) for i in indices]


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("inner", [1, 3, 8, 9, 64, 65, 300])
def test_products_are_exact(prime: int, inner: int) -> None:
    rng = np.random.default_rng(inner)
    field = Residues(prime, 0)
    for A in (rng.integers(0, prime, (2, 5, inner)), np.full((2, 5, inner), prime - 1)):
        for B in (rng.integers(0, prime, (2, inner, 4)), np.full((1, inner, 4), prime - 1)):
            exact = A.astype(object) @ B.astype(object) % prime
            assert (field.matmul(A, B) == exact).all()


@pytest.mark.parametrize("prime", PRIMES)
@pytest.mark.parametrize("size", [7, 5000])
def test_arithmetic(prime: int, size: int) -> None:
    rng = np.random.default_rng(size)
    field = Residues(prime, 0)
    a, b = (np.append(rng.integers(0, prime, size), [0, prime - 1])[None] for _ in range(2))
    x, y = a.astype(object), b.astype(object)
    assert (field.add(a, b) == (x + y) % prime).all()
    assert (field.mul(a, b) == x * y % prime).all()
    assert (field.reduce(-a) == -x % prime).all()
    a = np.maximum(a, 1)
    assert (field.mul(field.inverse(a), a) == 1).all()
    with pytest.raises(RejectionError, match="division by zero"):
        field.inverse(b * 0)
    assert field.number(Fraction(-3, 7)) * 7 % prime == prime - 3


def test_roots_and_drawn_functions() -> None:
    prime, seed = 2147483647, 9
    field = Residues(prime, seed)
    squares = field.mul(np.arange(1, 99)[None], np.arange(1, 99)[None])
    roots = field.root(squares, NO_SALTS)
    assert (field.mul(roots, roots) == squares).all()
    for bad in (0, prime - 1):  # -1 is no square
        with pytest.raises(NoRootError):
            field.root(np.array([[4, bad]]), NO_SALTS)
    z, salts = [0, 5, prime - 1], [0, 3, 2**20 - 1]
    a, s = np.array([[z]]), np.array([salts], np.uint64)
    at = [v + (salt << 32) for v, salt in zip(z, salts, strict=True)]
    assert field.exp(a, s).ravel().tolist() == [
        1 + u(seed, 2, i) % (prime - 1) if v else 1 for i, v in zip(at, z, strict=True)
    ]
    assert field.phi(a, s).ravel().tolist() == [u(seed, 6, i) % prime for i in at]
    assert field.density(a, s).ravel().tolist() == [1 + u(seed, 7, i) % (prime - 1) for i in at]
    assert field.step(a, s).ravel().tolist() == [u(seed, 10, i) % 2 for i in at]


@pytest.mark.parametrize("groups", [0, 2, 3])
def test_choices(groups: int) -> None:
    """The largest drawn numbers, in the groups with the largest sums of two."""
    prime, seed = 2147483647, 4
    field, choice = Residues(prime, seed), Choice(2, groups, 1 if groups else 0)
    a = np.random.default_rng(groups).integers(0, prime, (3, 6, 1, 4))
    found = field.choose(a, np.zeros((3, 4), np.uint64), choice)
    for n in range(3):
        for c in range(4):
            drawn = [u(seed, 10, int(x)) >> 12 for x in a[n, :, 0, c]]
            allowed = list(range(6))
            if groups:
                size = 6 // groups
                parts = [allowed[g * size : (g + 1) * size] for g in range(groups)]
                allowed = max(parts, key=lambda part: sum(sorted(drawn[i] for i in part)[-2:]))
            best = sorted(allowed, key=lambda i: -drawn[i])[:2]
            assert found[n, :, 0, c].tolist() == [int(i in best) for i in range(6)]


SUBSCRIPTS = (
    *("vk,kt->vt", "gqkd,dt->gqkt", "gokm,gqkt->gqmt", "govm,gqmt->gqvt", "gqdv,gqvt->dt"),
    *("rm,gqrt->gqmt", "edv,evt->edt", "edt,eot->dt", "n,nvt->vt", "nop,pmt->nmt"),
)


@pytest.mark.parametrize("subscripts", SUBSCRIPTS)
def test_contractions_are_sums_of_products(subscripts: str) -> None:
    sides, result = subscripts.split("->")
    left, right = sides.split(",")
    rng, field = random.Random(subscripts), Residues(2147483647, 0)
    alone = (set(left) ^ set(right)) - set(result)
    sizes = {x: 1 if x in alone else rng.randint(1, 4) for x in left + right}
    for batches in ((1, 1), (3, 1), (1, 3), (3, 3)):
        a, b = (
            np.array([rng.randrange(2**31 - 1) for _ in range(size * n)]).reshape(n, *shape)
            for letters, n in zip((left, right), batches, strict=True)
            for shape in [[sizes[x] for x in letters]]
            for size in [int(np.prod(shape))]
        )
        wide = f"...{left},...{right}->...{result}"
        exact = np.einsum(wide, a.astype(object), b.astype(object)) % (2**31 - 1)
        found = field.contract(subscripts, a, b)
        assert found.shape == exact.shape
        assert (found == exact).all()
        back = field.contract(f"{result},{right}->{left}", found, b)
        assert back.shape[1:] == a.shape[1:]


def test_linear_algebra() -> None:
    prime, rng = 2147483629, np.random.default_rng(2)
    A = rng.integers(0, prime, (5, 5))
    assert determinant(A, prime) == int(nmod_mat(5, 5, A.ravel().tolist(), prime).det())
    B = np.vstack([A[:3], (A[:1] + A[1:2]) % prime])
    assert rank(B, prime) == len(row_basis(B, prime)) == 3
    null = annihilator(B, prime)
    assert null.shape == (2, 5)
    assert not ((B.astype(object) @ null.T.astype(object)) % prime).any()


def test_balls_enclose_the_true_values() -> None:
    balls, rng = Balls(), np.random.default_rng(3)
    a, b = rng.integers(1, 9, (2, 3, 4)), rng.integers(1, 9, (2, 4, 5))
    A, B = (np.vectorize(arb, otypes=[object])(x) for x in (a, b))
    assert all(x == y for x, y in zip(balls.matmul(A, B).ravel(), (a @ b).ravel(), strict=True))
    for function, inverse in ((balls.exp, arb.log), (balls.phi, lambda x: (2 * x - 1).erfinv())):
        for x, y in zip(A.ravel(), function(A / arb(8), NO_SALTS).ravel(), strict=True):
            scale = arb(2).sqrt() if function == balls.phi else 1
            assert (inverse(y) * scale * 8).overlaps(x)
    third = np.array([[arb(1) / 3 * 3 - 1]])
    for unknown in (balls.inverse, lambda x: balls.root(x, NO_SALTS)):
        with pytest.raises(UncertainError):
            unknown(third)
    with pytest.raises(UncertainError):
        balls.step(third, NO_SALTS)
    with ctx.workprec(64), pytest.raises(UncertainError, match="chooses"):
        balls.choose(np.array([[[arb(1)], [arb(1) / 3 * 3]]]), NO_SALTS, Choice(1))
