"""Does a certificate of a mixed stack hold? Written from docs/certificate-mixed.md alone.

Sections of that page are cited as H1, H2, ..., those of docs/certificate.md as C1, C2, ..., and
those of docs/certificate-transformers.md as T1, T2, ...
"""

from __future__ import annotations
