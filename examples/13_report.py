"""What can segre tell you about a model?

`analyze` asks all questions, and every part of the answer says how it is known. The report is one
HTML file. The model is a Llama with 726 parameters that sorts four digits (examples/tiny-llama).
The script leaves out the proof, which takes half a minute.

Prints, but for measured numbers:

    What it is (exact): A language model with 2 layers, width 6 and 2 heads. It has
        726 parameters, 40% of them in MLP.
    Heads (measured): There are 4 heads. What they move (OV) has stable rank 1.5 to
        2.2 of 4; what they look for (QK), 1.3 to 1.9 of 4.
    Paths (measured): There are 9 paths through its heads. Paths of length 1 carry
        the largest share of the output, 61%; there are no biases. The head that
        carries most is head 2 of layer 2: 59.6%.
    Special points and conditioning (measured): No special points were found: up to
        rounding, these weights are generic.
    the sum over all paths equals the output to 5e-16
    the report is one file of 1 MB
"""

from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import segre
from segre.report.page.render import write_answer

model = Path(__file__).parent / "tiny-llama"
found = segre.analyze(model, only=["what", "heads", "paths", "weights"])
for part in found.parts:
    print(fill(f"{part.title} ({part.status}): {part.lead}", 80, subsequent_indent="    "))

paths = found["paths"].data
print(f"the sum over all paths equals the output to {paths['identity']:.0e}")
with TemporaryDirectory() as folder:
    report = Path(folder) / "report.html"
    write_answer(found, report)
    print(f"the report is one file of {report.stat().st_size / 1e6:.0f} MB")
