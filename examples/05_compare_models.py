"""How much of a large model is redundant?

The architecture alone decides: nothing is downloaded, and no weights are read. A theorem
(docs/theorems.md) says that these parameters are redundant and no others; segre checks its
hypotheses.

Prints:

    gpt2          124,439,808 parameters   1,347,352 redundant  1.083 %
    llama-3-8b  8,030,261,248 parameters  13,342,720 redundant  0.166 %
    qwen2-7b    7,615,616,512 parameters   9,008,384 redundant  0.118 %
    proved by theorem D1 (segre's own, docs/theorems.md; hypotheses checked)
"""

import segre

for name in ("gpt2", "llama-3-8b", "qwen2-7b"):
    found = segre.dimension(name)
    total = found.redundancy["total"]
    share = 100 * total / found.parameters
    print(f"{name:11} {found.parameters:13,} parameters {total:11,} redundant  {share:.3f} %")
print(found.proof())
