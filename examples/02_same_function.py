"""Can different weights be the same function?

Yes. First by hand, on one softmax layer: multiply the keys by 2 and divide the queries by 2. Then
on a stack with exact fractions, where segre decides the question and finds the group element that
takes one to the other.

Prints:

    by hand: outputs of (K, Q) and (2 K, Q / 2) are equal, bit by bit: True
    a stack: 36 of 42 fractions changed
    the group element takes one to the other with residual 0.0
    weights drawn anew: different, proved: True
    weights moved: same, proved: True; the normal forms are equal
"""

import numpy as np

import segre


def attention(K: np.ndarray, Q: np.ndarray, V: np.ndarray, X: np.ndarray) -> np.ndarray:
    """One softmax layer; tokens are the columns of X."""
    scores = np.exp((K @ X).T @ (Q @ X))
    return V @ X @ (scores / scores.sum(axis=0))


rng = np.random.default_rng(0)
K, Q, V = (rng.standard_normal((3, 3)) for _ in range(3))
X = rng.standard_normal((3, 5))
equal = np.array_equal(attention(K, Q, V, X), attention(2 * K, Q / 2, V, X))
print(f"by hand: outputs of (K, Q) and (2 K, Q / 2) are equal, bit by bit: {equal}")

weights = segre.Weights.random(segre.Network.parse("softmax/d=3,3,3/a=2/t=2"), exact=True)
moved = segre.move(weights, seed=1)
changed = sum(a != b for a, b in zip(weights.vector, moved.vector, strict=True))
print(f"a stack: {changed} of {len(moved.vector)} fractions changed")

found = segre.connect(weights, moved)
print(f"the group element takes one to the other with residual {found.residual}")
other = segre.same(weights, segre.Weights.random(weights.spec, seed=2, exact=True))
print(f"weights drawn anew: {other.verdict}, proved: {other.proved}")
verdict = segre.same(weights, moved)
print(f"weights moved: {verdict.verdict}, proved: {verdict.proved}; {verdict.reason}")
