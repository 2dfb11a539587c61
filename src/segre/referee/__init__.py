"""Does a certificate hold? An independent verifier, written from docs/certificate.md alone.

It shares no arithmetic with the prover: of segre it uses only the spec and the errors.
"""

from __future__ import annotations

from segre.referee.verdict import Verdict, verify

__all__ = ["Verdict", "verify"]
