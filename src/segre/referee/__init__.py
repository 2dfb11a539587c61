"""Does a certificate hold? An independent verifier, written from five pages alone.

The pages are docs/certificate.md, docs/certificate-transformers.md, docs/certificate-mixed.md,
docs/certificate-polynomial.md and docs/certificate-theorems.md. The referee shares no arithmetic
with the prover: of segre it uses only the readers of specs and the errors.
"""

from __future__ import annotations

from segre.referee.verdict import Verdict, verify

__all__ = ["Verdict", "verify"]
