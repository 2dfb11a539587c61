"""Pictures and pages that a command writes beside its answer."""

from __future__ import annotations

from datetime import date
from pathlib import Path


def require_writable(*, plot: Path | None = None, page: Path | None = None) -> None:
    """Refuse, before anything is computed, a picture or a page that cannot be written."""
    if plot is not None:
        from segre.report.drawing import require_static_format

        require_static_format(plot)
    if page is not None:
        from segre.report.analysis.page import require_report

        require_report(page)


def today() -> str:
    """The date that pages state.

    >>> len(today())
    10
    """
    return f"{date.today():%Y-%m-%d}"
