"""How is an answer shown: as text, in a notebook, as a pandas table?

Answers are rendered by `segre.report`, which comes last in the order of imports; it is imported
here only when something is shown.
"""

from __future__ import annotations

import reprlib
from importlib import import_module
from typing import Any

_MOST = 160  # characters


class Brief:
    """Something whose `repr` is one line, however much it holds."""

    __slots__ = ()

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "__repr__" not in cls.__dict__:  # a dataclass would add its own
            cls.__repr__ = Brief.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        if hasattr(self, "value") and hasattr(self, "status"):
            known = getattr(self, "label", self.status)  # a proof says what kind of proof it is
            said = f"{reprlib.repr(self.value)}, {known}"
        else:
            said = str(self).partition("\n")[0]
        words = " ".join(said.split())
        return f"<{type(self).__name__}: {words[:_MOST]}{'...' * (len(words) > _MOST)}>"


class Shown(Brief):
    """An answer that can be shown: `str` gives the text of the command line, notebooks get HTML."""

    __slots__ = ()

    def __str__(self) -> str:
        text: str = import_module("segre.report.text").text_of(self)
        return text

    def _repr_mimebundle_(self, **_wanted: Any) -> dict[str, str]:
        """The text that IPython shows, in place of a very long `repr`."""
        return {"text/plain": str(self)}

    def _repr_html_(self) -> str:
        """The card that notebooks show."""
        html: str = import_module("segre.report.cards").html_of(self)
        return html


class Tabular(Shown):
    """An answer with a table."""

    __slots__ = ()

    def to_pandas(self) -> Any:
        """Its table as a DataFrame; numbers are not rounded."""
        return import_module("segre.report.frame").frame_of(self)
