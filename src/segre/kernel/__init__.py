"""Does a certificate hold? A small checker that shares no mathematics with the prover.

It is written from docs/certificate.md alone, whose last section says in which order to read it.
"""

from __future__ import annotations

from segre.kernel.verify import Verdict, verify

__all__ = ["Verdict", "verify"]
