"""Can weights be read off a black box?

One softmax head, seen only through its outputs. V and A = K^T Q are determined by the function
and found; K and Q by themselves are not, and no one can find them.

Prints, but for measured numbers:

    asked about 52 inputs; least-squares, residual 2e-16
    estimated relative error of V and A: 2e-16
    largest true error of an entry: 9e-16, below 1e-12: True
"""

import numpy as np

import segre

rng = np.random.default_rng(0)
K, Q, V = rng.standard_normal((2, 4)), rng.standard_normal((2, 4)), rng.standard_normal((3, 4))
asked = 0


def black_box(X: np.ndarray) -> np.ndarray:
    """The layer; whoever calls it sees outputs only."""
    global asked
    asked += 1
    scores = np.exp((K @ X).T @ (Q @ X))
    return V @ X @ (scores / scores.sum(axis=0))


found = segre.recover(black_box, "softmax/d=4,3/a=2/t=4")
print(f"asked about {asked} inputs; {found.status}, residual {found.residual:.0e}")
print(f"estimated relative error of V and A: {found.error:.0e}")
worst = max(np.abs(found.V - V).max(), np.abs(found.A - K.T @ Q).max())
print(f"largest true error of an entry: {worst:.0e}, below 1e-12: {worst < 1e-12}")
