"""Which parameters of a Llama are redundant?

The model has the design of Llama (RMSNorm, rotary positions, grouped queries, SwiGLU) and is small
enough for a proof. Then each design choice is undone separately.

Prints:

        8  QK
       16  VO
       32  MLP
       32  norms and biases
        0  shifts
        0  residual
       +8  with no positions
      +24  with separate keys and values for every head
      +87  with no skips
      -32  with no norms
      -32  with no gains
      -32  with a GELU MLP
    88 of 1184 parameters redundant, proved by computation
"""

import segre

spec = segre.architecture("llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3")
found = segre.dimension(spec)
for piece, redundant in found.redundancy["pieces"].items():
    print(f"{redundant:5}  {piece}")
for choice in segre.explain(spec).choices:
    if choice.total:
        print(f"{choice.total:+5}  with {choice.instead}")
print(f"{found.redundancy['total']} of {found.parameters} parameters redundant, {found.proof()}")
