"""Plots and HTML pages that a command writes in addition to its answer."""

from __future__ import annotations

from datetime import date
from pathlib import Path


def require_writable(*, plot: Path | None = None, page: Path | None = None) -> None:
    """Refuse a plot or page that cannot be written before anything is computed."""
    if plot is not None:
        from segre.report.drawing import require_static_format

        require_static_format(plot)
    if page is not None:
        from segre.report.analysis.page import require_report

        require_report(page)


def today() -> str:
    """Today's date, for pages.

    >>> len(today())
    10
    """
    return f"{date.today():%Y-%m-%d}"
