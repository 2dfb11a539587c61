"""Certificates made once for each spec, what is done to them, and what the kernel says of them."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from bench.faults.certificates import at, sealed
from bench.kernel import Watch

from segre.certificate import certify
from segre.errors import TooLargeError
from segre.kernel import Verdict, verify
from segre.kernel.meter import Meter

Document = dict[str, Any]


@cache
def _certificate(spec: str) -> str:
    return json.dumps(certify(spec))


def certificate(spec: str) -> Document:
    """A copy, to be altered."""
    loaded: Document = json.loads(_certificate(spec))
    return loaded


def replaced(document: Document, path: tuple[Any, ...], value: Any) -> Document:
    """The document with another value at one place."""
    result = copy.deepcopy(document)
    at(result, path[:-1])[path[-1]] = value
    return result


def malformed(value: Any) -> Iterator[Any]:
    """Values that can stand nowhere in place of this one."""
    yield from ("no\nline", 1.5, float("nan"), -1, 10**30, 10**5000, object(), [[[]]])
    yield from () if isinstance(value, bool) else (True,)
    yield from () if value is None else (None,)
    if isinstance(value, int):
        yield from (str(value), float(value), [value])
    elif isinstance(value, list) and value:
        yield from (value[:-1], [*value, value[-1]], [*value, 0], {})
    elif isinstance(value, dict):
        yield {**value, "more": 1}
        yield from ({k: v for k, v in value.items() if k != key} for key in value)


def holds(document: Document) -> None:
    """It is accepted, and the work was estimated to be at least as much as it was."""
    watch = Watch()
    verdict = verify(document, meter=watch)
    assert verdict.valid, (document["spec"], verdict.reason)
    assert verdict.claim == document["claim"]
    assert 0 < watch.spent <= watch.estimated


def refused(document: Any) -> Verdict:
    """It is refused, for a reason in one line."""
    verdict = verify(document)
    assert not verdict.valid, document
    assert verdict.reason
    assert "\n" not in verdict.reason
    assert len(verdict.reason) < 1000
    return verdict


def rank_is_recounted(spec: str, step: int) -> None:
    """Rank and claim are altered consistently, so only a recount can tell."""
    document = certificate(spec)
    document["upper"]["rank"] += step
    claim = document["claim"]
    claim["upper"] -= step
    claim["status"] = "proved" if claim["upper"] == claim["lower"] else "bounds"
    assert refused(sealed(document)).reason.startswith(("upper.rank", "claim.upper"))


def refused_at_once(document: Document, seconds: float = 3600) -> None:
    """It is too large, and nothing is computed before this is said."""
    meter = Meter(seconds=seconds)
    with pytest.raises(TooLargeError) as error:
        verify(document, meter=meter)
    assert "\n" not in str(error.value)
    assert meter.spent == 0, "nothing was computed"
