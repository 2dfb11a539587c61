"""How many forms are there, and how many are sums of few powers? Section P6, in integers alone.

>>> forms(3, 4), powers(3, 4, 5)
(15, 14)
"""

from __future__ import annotations

from segre.referee.rejection import RejectionError

MOST_FORMS = 10**40
# The cases (n, r, m) of Alexander and Hirschowitz in which a dimension is missing.
_DEFECTIVE = {(5, 3, 7), (3, 4, 5), (4, 4, 9), (5, 4, 14)}


def capped_forms(variables: int, degree: int, most: int) -> int:
    """N(v, d), or any number above `most` if it is above."""
    low = min(variables - 1, degree)
    total = variables - 1 + degree
    found = 1
    for chosen in range(low):
        # C(total - low + j, j) for j = 1, 2, ..., which grows by a factor of 2 or more
        found = found * (total - low + chosen + 1) // (chosen + 1)
        if found > most:
            break
    return found


def forms(variables: int, degree: int) -> int:
    """N(v, d), which must not be too large."""
    found = capped_forms(variables, degree, MOST_FORMS)
    if found > MOST_FORMS:
        raise RejectionError("upper.steps: a rule needs a number of forms above 10^40")
    return found


def forms_after(variables: int, degree: int, layers: int) -> int:
    """N(v, r^j), which must not be too large."""
    # 2^134 is above 10^40 already, and of one variable there is one form of every degree
    return forms(variables, degree ** min(layers, 134))


def powers(n: int, r: int, m: int) -> int:
    """A(n, r, m): the dimension of the sums of m powers of degree r >= 2 in n variables."""
    if r == 2:
        rank = min(n, m)
        return rank * n - rank * (rank - 1) // 2
    return min(n * m, capped_forms(n, r, n * m)) - ((n, r, m) in _DEFECTIVE)
