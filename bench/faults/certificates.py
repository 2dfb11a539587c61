"""Certificates that were altered, and mended so that only the mathematics can tell.

Every place of a certificate is altered, in several ways. Then all that can be recomputed without
proving anything is put right again: parameters, digests, counts, the claim that follows from a
rank, the checksum. What the kernel accepts after that has to be true: bounds that hold for the
dimension.
"""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from typing import Any

from bench.faults.tally import Tally
from segre.certificate import certify, checksum
from segre.errors import CertificateError, SpecError, TooLargeError
from segre.geometry.dimension import dimension
from segre.kernel import verify
from segre.models import architecture

STACKS = (
    "lightning/d=2,2,1/a=1/heads=2,1/t=2",
    "lightning/d=1,2/a=2/heads=4/t=2",
    "softmax/d=2,1/a=1/heads=2/dv=1/t=2",
    "softmax/d=2,2/a=1/heads=2/t=1",
)
TRANSFORMERS = (
    "transformer/d=2/norm=rms/attn=lightning/t=2",
    "transformer/d=2/norm=rms/mlp=gelu/ff=1/t=2",
    "transformer/d=2/mlp=relu/ff=2/t=2",
    "transformer/d=3/head=1/norm=rms/vocab=4/tied=true/t=2",
)
MIXED = (
    "mix/d=2,1/a=2/heads=softmax:unit=sphere:gate=head/t=2",
    "mix/d=2,1/a=1/heads=linear:normalise=none/t=2",
    "mix/d=2,2,1/a=1/heads=lightning:decay=1/2*2,double/t=2",
    "mix/d=2,2/a=1/heads=fast:unit=none:bias=key+gapless/dv=1/t=2",
)
POLYNOMIALS = (
    "poly/3-2-2-1/degree=2",
    "poly/3-5-2/degree=3",
    "poly/2-2-2/degree=2/bias=true",
    "poly/2-3-2/degree=1/bias=true",
    "cnn/k=3,2/stride=2,1/degree=2",
)
STATUS = ("proved", "certain", "bounds")
QUICK_KINDS = ("stacks", "polynomial networks")  # of these, more are tried
Path = tuple[Any, ...]
Document = dict[str, Any]


def places(value: Any, path: Path = ()) -> Iterator[Path]:
    """Every place of a document."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, (*path, key))
    if isinstance(value, list):
        for i, inner in enumerate(value):
            yield from places(inner, (*path, i))


def at(document: Any, path: Path) -> Any:
    """What stands at a place."""
    for step in path:
        document = document[step]
    return document


def variants(value: Any) -> Iterator[Any]:
    """Other values for a place, of the same type and of others."""
    yield from ("", "no\nline", 1.5, float("nan"), [], {}, 10**5000, object(), [[[]]])
    if value is not None:
        yield None
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield from (value + 1, value - 1, -value - 1, value + 2**64, 10**30, str(value))
        yield from (float(value), bool(value), [value])
    elif isinstance(value, str):
        yield from (value + " ", value.upper(), value[1:], value + "\ud800", 0)
        yield from {"proved", "certain", "bounds"} - {value} if value in STATUS else ()
    elif isinstance(value, list) and value:
        yield from (value[:-1], value[1:], [*value, value[-1]], [*value, 0], (*value, None))
        if len(value) > 1 and value[0] != value[1]:
            yield [value[1], value[0], *value[2:]]
    elif isinstance(value, dict):
        yield {**value, "more": 1}
        for key in value:
            yield {other: inner for other, inner in value.items() if other != key}
    elif value is None:
        yield from (0, 1, False, "null")


def altered(document: Document) -> Iterator[Document]:
    """The document with one place altered, in every way."""
    for path in places(document):
        if path in ((), ("format",), ("version",)):
            continue
        value = at(document, path)
        for variant in variants(value):
            if type(variant) is type(value) and variant == value:
                continue  # an empty list is one of them
            result = copy.deepcopy(document)
            at(result, path[:-1])[path[-1]] = variant
            yield result


def sealed(document: Document) -> Document:
    """With a checksum that is right; as it is, if it is not even JSON."""
    try:
        return {**document, "checksum": checksum(document)}
    except (TypeError, ValueError, UnicodeEncodeError):
        return document


def forged(document: Document, seed: int) -> Document:
    """A few places altered to other numbers that could stand there."""
    chance = random.Random(seed)
    result = copy.deepcopy(document)
    whole = [p for p in places(result) if type(at(result, p)) is int and p[0] != "version"]
    wanted = [p for p in whole if p[0] in ("claim", "upper")] if chance.random() < 0.4 else whole
    for path in chance.sample(wanted, min(len(wanted), chance.randint(1, 3))):
        value = at(result, path)
        other = chance.choice([value + 1, max(0, value - 1), chance.randrange(abs(value) + 3)])
        at(result, path[:-1])[path[-1]] = other
    if chance.random() < 0.3:
        result["point"]["seed"] = chance.randrange(2**64)
    return result


def healed(document: Document) -> Document:
    """All that follows from other parts of a certificate put right, and the seal."""
    result = copy.deepcopy(document)
    try:
        spec = architecture(result["spec"])
        if result["point"] is None:
            return sealed(result)
        result["spec"], result["digest"] = spec.document(), spec.digest
        claim, lower, upper = result["claim"], result["lower"], result["upper"]
        claim["parameters"] = spec.parameters
        size = claim["lower"] = min(claim["lower"], len(lower["rows"]), len(lower["columns"]))
        lower["rows"], lower["columns"] = lower["rows"][:size], lower["columns"][:size]
        if "salts" in lower:
            used = {str(n) for n, _ in lower["rows"]}
            lower["salts"] = {n: salts for n, salts in lower["salts"].items() if n in used}
        if "steps" in upper:
            claim["upper"] = upper["steps"][0]["value"]
        if "rank" in upper:
            claim["upper"] = spec.parameters - upper["rank"]
        claim["lower_by"], claim["upper_by"] = lower["kind"], upper["kind"]
        if upper["kind"] == "random":
            claim["upper"] = size
        meet = "proved" if claim["lower"] == claim["upper"] else "bounds"
        claim["status"] = "certain" if upper["kind"] == "random" else meet
    except (SpecError, LookupError, TypeError, ValueError, AttributeError):
        pass
    return sealed(result)


def ranked(document: Document) -> Document:
    """With the rank that the kernel finds, if that is all that is wrong."""
    try:
        found = re.search(r"upper.rank: \d+, but the rank is (\d+)", verify(document).reason)
    except (CertificateError, TooLargeError):
        return document
    if found is None:
        return document
    upper = {**document["upper"], "rank": int(found[1])}
    return healed({**document, "upper": upper})


def accepted(document: Document) -> bool:
    """Whether the kernel accepts it."""
    try:
        return verify(document).valid
    except (CertificateError, TooLargeError):
        return False


class Truth:
    """The dimensions of architectures, worked out once: bounds, if that is all there is."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}

    def holds(self, document: Document) -> bool:
        """Whether the claim of a certificate is true: no bound excludes what is known."""
        digest = document["digest"]
        if digest not in self._known:
            found = dimension(document["spec"], symmetries=True)
            high = found.upper or found.parameters
            self._known[digest] = found.lower or 0, high if found.number is None else found.number
        low, high = self._known[digest]
        claim = document["claim"]
        return bool(claim["lower"] <= high and low <= claim["upper"])


def tally(quick: bool) -> list[Tally]:
    """Alter and forge certificates of all kinds of networks."""
    truth = Truth()
    found = []
    kinds = (
        *(("stacks", STACKS), ("transformers", TRANSFORMERS), ("mixed stacks", MIXED)),
        ("polynomial networks", POLYNOMIALS),
    )
    for kind, specs in kinds:
        plain = changed = wrong = true = forgeries = passed = false = 0
        for spec in specs[:1] if quick else specs:
            document = certify(spec)
            every = list(altered(document))
            for one in every[:: 40 if quick else 2 if kind in QUICK_KINDS else 12]:
                plain += 1
                wrong += accepted(one)
                mended = ranked(healed(one))
                changed += 1
                if accepted(mended):
                    true += 1
                    wrong += not truth.holds(mended)
            for seed in range(20 if quick else 400):
                forgeries += 1
                mended = ranked(healed(forged(document, seed)))
                if accepted(mended):
                    passed += 1
                    false += not truth.holds(mended)
        note = f"{true} of the healed ones are accepted, and true; all others are refused"
        found.append(
            Tally(f"certificates of {kind}, altered; healed", plain + changed, wrong, note)
        )
        note = f"{passed} are accepted, and true; all others are refused"
        found.append(Tally(f"certificates of {kind}, forged and healed", forgeries, false, note))
    return found
