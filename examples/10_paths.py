"""How can a forward pass be the sum of 23 trillion paths?

Once the attention patterns are fixed, a network without MLPs is linear in each path: a head, or the
skip, in every layer. segre computes the sums by length, layer by layer, without listing any path.

Prints, but for measured numbers:

    length  0                   1 paths  norm 2.2e+00
    length  1                 144 paths  norm 3.2e+00
    length  2               9,504 paths  norm 9.4e+00
    length  3             380,160 paths  norm 1.3e+01
    length  4          10,264,320 paths  norm 2.0e+01
    length  5         197,074,944 paths  norm 1.5e+01
    length  6       2,759,049,216 paths  norm 1.9e+01
    length  7      28,378,791,936 paths  norm 2.1e+01
    length  8     212,840,939,520 paths  norm 1.8e+01
    length  9   1,135,151,677,440 paths  norm 9.1e+00
    length 10   4,086,546,038,784 paths  norm 3.7e+00
    length 11   8,916,100,448,256 paths  norm 1.5e+00
    length 12   8,916,100,448,256 paths  norm 7.7e-01
    all 23,298,085,122,481 paths against the output: 6e-16, relative
"""

import numpy as np

from segre.collapse.paths import path_sums
from segre.collapse.stack import FloatNetwork

done = FloatNetwork.random(layers=12, heads=12, d=24, skip=True).forward(np.eye(5, 24))
sums = path_sums(done)
for length, (count, term) in enumerate(zip(sums.counts, sums.by_length, strict=True)):
    print(f"length {length:2}  {count:18,} paths  norm {np.linalg.norm(term):.1e}")
gap = np.abs(sums.total - done.output).max() / np.abs(done.output).max()
print(f"all {sum(sums.counts):,} paths against the output: {gap:.0e}, relative")
