"""Can you recover weights from a black box?

The black box is one softmax head that shows only its outputs. The function determines V and
A = K^T Q, and segre finds them. It does not determine K and Q, so nobody can find those.

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
    """The layer; the caller sees only its outputs."""
    global asked
    asked += 1
    scores = np.exp((K @ X).T @ (Q @ X))
    return V @ X @ (scores / scores.sum(axis=0))


found = segre.recover(black_box, "softmax/d=4,3/a=2/t=4")
print(f"asked about {asked} inputs; {found.status}, residual {found.residual:.0e}")
print(f"estimated relative error of V and A: {found.error:.0e}")
worst = max(np.abs(found.V - V).max(), np.abs(found.A - K.T @ Q).max())
print(f"largest true error of an entry: {worst:.0e}, below 1e-12: {worst < 1e-12}")
