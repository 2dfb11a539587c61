"""How does an answer show itself: printed, in a notebook, as a table of pandas?

What shows answers is `segre.report`, which stands above everything else: it is named here, and
imported when something is shown.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Shown:
    """An answer that can be printed: `str` is what the command line says, notebooks get HTML."""

    __slots__ = ()

    def __str__(self) -> str:
        text: str = import_module("segre.report.text").text_of(self)
        return text

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, str]:
        """The text that IPython shows: without this it would be the `repr`, of a thousand words."""
        return {"text/plain": str(self)}

    def _repr_html_(self) -> str:
        """The card that notebooks show."""
        html: str = import_module("segre.report.cards").html_of(self)
        return html


class Tabular(Shown):
    """An answer with a table."""

    __slots__ = ()

    def to_pandas(self) -> Any:
        """Its table as a DataFrame; numbers are as they are, not as they are printed."""
        return import_module("segre.report.cards").frame_of(self)
