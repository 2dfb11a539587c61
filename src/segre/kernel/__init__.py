"""Does a certificate hold? A small checker that shares no mathematics with the prover.

It is written from docs/certificate.md alone. Of segre it takes only the readers of specs, files,
errors and how answers are shown.
"""

from __future__ import annotations

from segre.kernel.verify import Verdict, verify

__all__ = ["Verdict", "verify"]
