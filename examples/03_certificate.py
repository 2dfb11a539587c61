"""Can someone who does not trust segre check its answer?

A certificate is a document with everything that the proof needs. `verify` recomputes it with
independent code, and rejects it if a single number was changed.

Prints:

    ok  The file is complete and well formed, and describes softmax/d=4,4,4/a=2/t=3
        with 64 parameters.
    ok  8388587 is prime.
    ok  The Jacobian at the point of seed 0 has a minor of size 40 that is not zero
        mod p: the dimension is at least 40.
    ok  The arguments are independent: a determinant of size 30 of their differences
        is not zero mod p.
    ok  Lemmas prove 3 spaces; their generators have rank 24, so the dimension is at
        most 40.
    one number changed: checksum: the file was altered or damaged after it was written
    and its checksum: lower.determinant: 6815605, but the minor is 6815604 mod p
    valid: True, dimension 40, proved by computation
"""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import segre
from segre.certificate import checksum

document = segre.certify("softmax/d=4,4,4/a=2/t=3")
with TemporaryDirectory() as folder:
    path = Path(folder) / "certificate.json"
    segre.write_certificate(document, path)
    verdict = segre.verify(path)
    for check in verdict.checks:
        print(fill(f"ok  {check}", 80, subsequent_indent="    "))

    forged = json.loads(path.read_text())
    forged["lower"]["determinant"] += 1
    print(f"one number changed: {segre.verify(forged).reason}")
    forged["checksum"] = checksum(forged)
    print(f"and its checksum: {segre.verify(forged).reason}")

print(f"valid: {verdict.valid}, dimension {verdict.claim['lower']}, proved by {verdict.kind}")
