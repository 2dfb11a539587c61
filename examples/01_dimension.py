"""How many dimensions of function do 280 weights have?

The network has two softmax attention layers of width 10 with head rank 2, on three tokens. Both
bounds are proved, and they meet.

Prints:

    at least 172: a 172 x 172 minor of the Jacobian is not zero mod 8388587 (seed 0,
    12 inputs); the 18 exponentials of an input are independent (Ax)
    at most 172: 108 independent symmetries of 280 parameters, each checked to lie
    in the kernel of the Jacobian
        4  query-key basis GL(2), layer 1
      100  token basis GL(10), between layers 1 and 2
        4  query-key basis GL(2), layer 2
    280 weights, 172 dimensions of function, proved by computation
"""

from textwrap import fill

import segre

found = segre.dimension("softmax/d=10,10,10/a=2/t=3", symmetries=True)

print(fill(f"at least {found.lower}: {found.lower_evidence.statement}", 80))
print(fill(f"at most {found.upper}: {found.upper_evidence.statement}", 80))
for symmetry in found.symmetries:
    print(f"{symmetry.dimension:5}  {symmetry.name}, {symmetry.where}")
print(f"{found.parameters} weights, {found.value} dimensions of function, {found.proof()}")
