"""Which functions of segre does the static page contain, and what do they need of Python?"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from segre.attention.mechanism import require_known
from segre.explore.alone.expressions import UntranslatableError
from segre.explore.alone.reached import Reached
from segre.explore.known import by_formulas
from segre.finding import Finding
from segre.geometry.explain import Explanation
from segre.models import architecture
from segre.polynomial.spec import Polynomial
from segre.sequence.cost import Costs
from segre.shown import Shown
from segre.slope import Slope
from segre.spec import Network
from segre.symmetry.all import pieces

_BUILTIN = r"\$(?:builtin|itertools|math|dataclasses)_\w+"
_ENTRY = "const byFormulas = (spec, undo) => ($forget(), $told($byFormulas(spec, undo)));\n"
_PYTHON = ("numbers.js", "containers.js", "language.js")
# Methods and symmetries of other kinds of networks, which share a name with what is called.
_LEFT_OUT = (
    *(Finding.document, Explanation.document, Costs.document, Shown.__str__, Slope.value),
    *(pieces.dispatch(kind) for kind in (Network, Polynomial)),
    Network.parse.__func__,  # type: ignore[attr-defined]
)


@cache
def script() -> str:
    """A script that defines `byFormulas`: segre's answer to an inline spec, as plain data."""
    home = files("segre.explore.alone")
    python = [home.joinpath(name).read_text(encoding="utf-8") for name in _PYTHON]
    reached = Reached(_LEFT_OUT, same=(architecture, require_known))
    code = "\n".join([*python, reached.code({"$byFormulas": by_formulas}), _ENTRY])
    missing = set(re.findall(_BUILTIN, code)) - set(
        re.findall(rf"(?:const|function\*?|,) ({_BUILTIN})", code)
    )
    if missing:
        raise UntranslatableError(f"the scripts of the page lack {', '.join(sorted(missing))}")
    return code
