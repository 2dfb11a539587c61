"""What does a certificate say, and has it the form it must have? It is untrusted input.

What cannot be read at all raises `CertificateError`. What can be read, but has a wrong type, key,
range or checksum, raises `RejectionError`. Nothing here computes with a network.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from segre.errors import CertificateError, SpecError
from segre.files import read_given
from segre.polynomial.spec import Polynomial
from segre.spec import Network
from segre.transformer.spec import Transformer

Spec = Network | Transformer | Polynomial

FORMAT = "segre-certificate"
VERSION = 6
KEYS = (
    *("format", "version", "spec", "digest", "claim", "point"),
    *("lower", "independence", "roots", "upper", "checksum"),
)
COUNTED = ("closed-form", "ambient", "inequalities", "contexts")  # upper bounds by formulas
LOWER = ("minor", "balls", "theorem")
UPPER = ("spaces", "within", *COUNTED, "random", "theorem")
LARGEST_FILE = 256 << 20
MOST_VALUES = 4_000_000
MOST_PARAMETERS = 20_000  # of a network that is computed with
DEEPEST = 16
LONGEST_NUMBER = 40  # digits
MANY = 10**LONGEST_NUMBER
WORD = 1 << 64
# The reader of specs would raise 10 to any power.
_FRACTION = re.compile(r"[0-9]{1,20}(\.[0-9]{1,30})?(e[+-]?[0-9]{1,2})?|[0-9]{1,20}/[0-9]{1,20}")
# What the page says of the heads of stacks: other values would be computed wrongly.
_STEPS = {
    "weigh": ("identity", "exp", "taylor"),
    "normalise": ("none", "keys", "both", "centred"),
    "feature": ("none", "square", "exp", "relu", "elu1", "silu"),
    "unit": ("none", "sphere", "layer"),
    "conv": ("none", "full", "depthwise", "shared"),
    "gate": ("none", "head", "element"),
    "bias": ("none", "key", "query", "both"),
}
_FRACTIONS = ("eps", "cap", "logitcap", "scale", "limit", "mixeps", "skip")


class RejectionError(Exception):
    """Raised where a check fails, with the reason in one line; `verify` makes it a verdict."""


@dataclass(frozen=True, slots=True)
class Claim:
    """lower <= dimension <= upper, each with the kind of its evidence."""

    parameters: int
    lower: int
    upper: int
    lower_by: str
    upper_by: str
    status: str

    @property
    def meant(self) -> str:
        """The status that follows from the rest."""
        if self.upper_by == "random":
            return "certain"
        return "proved" if self.lower == self.upper else "bounds"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate whose frame is right; its sections are still to be read."""

    spec: Spec
    digest: str
    claim: Claim
    prime: int
    seed: int
    sections: Mapping[str, Any]
    checksum: str


def examine(document: Mapping[str, Any]) -> Certificate:
    """Check the frame of a certificate: its keys and seal, the spec, the claim and the point."""
    keys(document, KEYS, "the certificate")
    body = {key: value for key, value in document.items() if key != "checksum"}
    if document["checksum"] != sha256(body):
        raise RejectionError("checksum: the file was altered or damaged after it was written")
    spec, digest = read_spec(document["spec"]), document["digest"]
    if digest != sha256(document["spec"]):
        raise RejectionError("digest: not the SHA-256 of the spec")
    claim = _claim(document["claim"])
    for key, kind in (("lower", claim.lower_by), ("upper", claim.upper_by)):
        found = document[key].get("kind") if isinstance(document[key], dict) else None
        if found != kind:
            raise RejectionError(f"{key}.kind: {quote(found)}, but claim.{key}_by is {kind!r}")
    if document["roots"] == []:
        raise RejectionError("roots: there are none; it must be null")
    sections = {key: document[key] for key in ("lower", "independence", "roots", "upper")}
    if claim.lower_by == "theorem":
        for key in ("point", "independence", "roots"):
            if document[key] is not None:
                raise RejectionError(f"{key}: a theorem has none; it must be null")
        return Certificate(spec, digest, claim, 0, 0, sections, document["checksum"])
    keys(document["point"], ("seed", "prime"), "point")
    seed = whole(document["point"]["seed"], "point.seed", 0, WORD - 1)
    prime = _prime(document["point"]["prime"])
    return Certificate(spec, digest, claim, prime, seed, sections, document["checksum"])


def read_spec(value: Any) -> Spec:
    """The architecture, which must be written in its canonical form."""
    spec = parsed_spec(value)
    if canonical(value) != canonical(spec.document()):
        raise RejectionError("spec: not in canonical form (defaults left out)")
    return spec


def parsed_spec(value: Any) -> Spec:
    """The architecture that is described, in any form."""
    if not isinstance(value, dict):
        raise RejectionError(f"spec: {quote(value)} is not an object")
    for key in _FRACTIONS:
        given = value.get(key)
        if isinstance(given, str) and not _FRACTION.fullmatch(given):
            raise RejectionError(f"spec: {key}: {quote(given)} is not a number")
    reader: type[Spec] = Polynomial if value.get("kind") in ("poly", "cnn") else Network
    reader = Transformer if value.get("kind") == "transformer" else reader
    try:
        spec = reader.from_mapping(value)
    except SpecError as error:
        raise RejectionError(" ".join(str(error).split())[:300]) from None
    for one in spec.mechanisms if isinstance(spec, Network) else ():
        for step, described in _STEPS.items():
            if (found := getattr(one, step)) not in described:
                raise RejectionError(f"spec: {step}={found} is not known to the kernel")
    return spec


def _claim(value: Any) -> Claim:
    keys(value, ("parameters", "lower", "upper", "lower_by", "upper_by", "status"), "claim")
    lower_by = text(value["lower_by"], "claim.lower_by", LOWER)
    upper_by = text(value["upper_by"], "claim.upper_by", UPPER)
    if (lower_by == "theorem") != (upper_by == "theorem"):
        raise RejectionError("claim: a theorem gives both bounds, or none")
    parameters = whole(value["parameters"], "claim.parameters", 1, MANY)
    lower = whole(value["lower"], "claim.lower", 0, parameters)
    upper = whole(value["upper"], "claim.upper", lower, MANY)
    claim = Claim(parameters, lower, upper, lower_by, upper_by, quote(value["status"]))
    if value["status"] != claim.meant:
        raise RejectionError(f"claim.status: {claim.status}, but it should be {claim.meant!r}")
    return Claim(parameters, lower, upper, lower_by, upper_by, claim.meant)


def _prime(value: Any) -> int:
    from flint import fmpz  # slow to import, and of no use to certificates by theorem

    prime = whole(value, "point.prime", (1 << 16) + 1, (1 << 31) - 1)
    if not fmpz(prime).is_prime():
        raise RejectionError(f"point.prime: {prime} is not a prime number")
    return prime


# The form of single values. A JSON true is not a number.


def canonical(value: Any) -> str:
    """The one JSON text of a value that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def sha256(value: Any) -> str:
    """The hash of a value, as written in certificates."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


def quote(value: object, longest: int = 60) -> str:
    """A value as it may stand in a message of one line."""
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    if isinstance(value, str) and len(value) > longest:
        return repr(value[:longest] + "...")
    return repr(value)


def keys(
    value: Any, names: Collection[str], where: str, optional: Collection[str] = ()
) -> dict[str, Any]:
    """Require an object with exactly these keys, and perhaps the optional ones."""
    if not isinstance(value, dict):
        raise RejectionError(f"{where}: {quote(value)} is not an object")
    for key in names:
        if key not in value:
            raise RejectionError(f"{where}: the key {key!r} is missing")
    for key in value:
        if key not in names and key not in optional:
            raise RejectionError(f"{where}: the key {quote(key)} is not allowed")
    return value


def items(value: Any, where: str, length: int | None = None) -> list[Any]:
    """Require a list, of this length if one is given."""
    if not isinstance(value, list):
        raise RejectionError(f"{where}: {quote(value)} is not a list")
    if length is not None and len(value) != length:
        raise RejectionError(f"{where}: {len(value)} entries, but there should be {length}")
    return value


def whole(value: Any, where: str, low: int, high: int) -> int:
    """Require a whole number low..high."""
    if type(value) is not int or not low <= value <= high:
        raise RejectionError(f"{where}: {quote(value)} is not a whole number from {low} to {high}")
    return value


def text(value: Any, where: str, allowed: Collection[str] | None = None) -> str:
    """Require a string, one of these if some are given."""
    if not isinstance(value, str):
        raise RejectionError(f"{where}: {quote(value)} is not a string")
    if allowed is not None and value not in allowed:
        raise RejectionError(f"{where}: {quote(value)}; allowed: {', '.join(allowed)}")
    return value


def distinct(values: Sequence[Any], where: str) -> None:
    """Require that no value occurs twice."""
    if len(set(values)) != len(values):
        raise RejectionError(f"{where}: an entry is listed twice")


# Reading: bounded in size, depth and time.


def read(
    source: str | Path | Mapping[str, Any], versions: Collection[int] = (VERSION,)
) -> tuple[dict[str, Any], RejectionError | None]:
    """The certificate, plain and of known format, and what is wrong with its JSON, if anything.

    Faults that leave the file readable (a key twice, NaN, a fraction) are returned, not raised, so
    that a file of another format is told apart first.
    """
    faults: list[str] = []
    name = "certificate"
    if isinstance(source, str | Path):
        name = f"certificate {quote(str(source), 200)}"
        source = _parse(_bytes(source, name), faults, name)
    elif not isinstance(source, Mapping):
        raise CertificateError(
            f"a {type(source).__name__} is not a certificate; give a file or a mapping"
        )
    document = _plain(source, faults, name, DEEPEST)
    if not isinstance(document, dict):
        raise CertificateError(f"{name}: not a JSON object; give a file written by segre certify")
    if "format" not in document:
        raise CertificateError(f"{name}: no key 'format'; give a file written by segre certify")
    if document["format"] != FORMAT:
        raise CertificateError(f"{name}: format {quote(document['format'])}; allowed: {FORMAT!r}")
    version = document.get("version")
    if type(version) is not int or version not in versions:
        older = type(version) is int and 1 <= version < VERSION
        advice = "; segre certify --convert FILE writes it anew" if older else ""
        allowed = ", ".join(map(str, versions))
        raise CertificateError(f"{name}: version {quote(version)}; allowed: {allowed}{advice}")
    return document, RejectionError(faults[0]) if faults else None


def _bytes(source: str | Path, name: str) -> bytes:
    try:
        data = read_given(source, LARGEST_FILE)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise CertificateError(f"{name}: cannot be read ({reason or error})") from None
    # Python objects are far larger than their text, so values are counted before any is made.
    if sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise CertificateError(f"{name}: more than {MOST_VALUES} values")
    return data


def _parse(data: bytes, faults: list[str], name: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(found)
        if len(result) != len(found):
            twice, _ = Counter(key for key, _ in found).most_common(1)[0]
            faults.append(f"the key {quote(twice)} is given twice in one object")
        return result

    def number(digits: str) -> int | None:
        if len(digits) > LONGEST_NUMBER:
            faults.append(f"a number of {len(digits)} digits is out of all ranges")
            return None
        return int(digits)

    try:
        return json.loads(data.decode(), object_pairs_hook=pairs, parse_int=number)
    except RecursionError:
        raise CertificateError(f"{name}: nested too deeply") from None
    except ValueError as error:
        raise CertificateError(f"{name}: not JSON, or truncated ({error})") from None


def _plain(value: Any, faults: list[str], name: str, depth: int) -> Any:
    """A copy made only of what a certificate has: what is given may hold anything."""
    if value is None or type(value) in (bool, str):
        return value
    if type(value) is int:
        if abs(value) < MANY:
            return value
        faults.append("a number is out of all ranges")
        return None
    if not isinstance(value, Mapping | list | tuple):
        foreign = repr(value) if type(value) is float else f"a value of type {type(value).__name__}"
        faults.append(f"{foreign} is not a whole number, or not JSON")
        return None
    if depth == 0:
        raise CertificateError(f"{name}: nested too deeply")
    if not isinstance(value, Mapping):
        return [_plain(inner, faults, name, depth - 1) for inner in value]
    named = {key: inner for key, inner in value.items() if isinstance(key, str)}
    if len(named) != len(value):
        faults.append("a key is not a string")
    return {key: _plain(inner, faults, name, depth - 1) for key, inner in named.items()}
