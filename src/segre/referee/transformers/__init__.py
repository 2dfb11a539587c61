"""Does a certificate of a transformer hold? Written from docs/certificate-transformers.md alone.

Sections of that page are cited by their numbers.
"""

from __future__ import annotations
