"""Does a tree of inequalities bound the dimension? Every step by its rule.

The steps are read twice: forwards to find the widths that each is about, and backwards to add up
the values of its parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from segre.kernel.counting import capped_forms, forms, forms_after, powers
from segre.kernel.document import MANY, RejectionError, items, keys, quote, whole
from segre.kernel.meter import RESIDUES, afford
from segre.polynomial.spec import Polynomial

PLACED = ("forms", "cut", "doubled")  # rules that say where they are applied
_ALONE = ("weights", "scales", "rank", "quadric", "veronese", "scroll", "curve", "pfaffian")
RULES = (*_ALONE, *PLACED, "linear", "filters")


class Step(NamedTuple):
    """A rule, where it is applied if it has to say so, and the bound."""

    rule: str
    at: int
    value: int


class Part(NamedTuple):
    """The widths (first, d_{start+1}, ..., d_stop) of part of a network."""

    first: int
    start: int
    stop: int

    @property
    def layers(self) -> int:
        """The number l of layers."""
        return self.stop - self.start


_Found = tuple[int, list[Part]]  # what a rule adds to the values of its parts, and the parts


def read_steps(upper: Any, spec: Polynomial) -> list[Step]:
    """The steps of a certificate."""
    keys(upper, ("kind", "steps"), "upper")
    listed, most = items(upper["steps"], "upper.steps"), 2 * len(spec.layers)
    if not 0 < len(listed) <= most:
        raise RejectionError(f"upper.steps: {len(listed)} steps; allowed: 1 to {most}")
    return [_step(step, f"upper.steps[{i}]", spec) for i, step in enumerate(listed)]


def _step(value: Any, where: str, spec: Polynomial) -> Step:
    rule = value.get("rule") if isinstance(value, dict) else None
    placed = isinstance(rule, str) and rule in PLACED
    keys(value, ("rule", "at", "value") if placed else ("rule", "value"), where)
    if not isinstance(rule, str) or rule not in RULES:
        raise RejectionError(f"{where}.rule: {quote(rule)}; allowed: {', '.join(RULES)}")
    most = max(len(spec.layers), spec.degree)
    at = whole(value["at"], f"{where}.at", 0, most) if placed else 0
    return Step(rule, at, whole(value["value"], f"{where}.value", 0, MANY))


def check_steps(spec: Polynomial, steps: Sequence[Step]) -> int:
    """Recompute every step; the bound that they prove together."""
    afford(work_of(spec, steps))
    if spec.convolutional or spec.degree == 1:
        rule = "filters" if spec.convolutional else "linear"
        if [step.rule for step in steps] != [rule]:
            raise RejectionError(f"upper.steps: of this network the only step is {rule!r}")
        values = [_filters(spec) if spec.convolutional else _linear(spec)]
    else:
        values = _Tree(spec, steps).values()
    for i in range(len(steps) - 1, -1, -1):  # parts first: a wrong part makes its step wrong
        given, value, rule = steps[i].value, values[i], steps[i].rule
        if given != value:
            raise RejectionError(
                f"upper.steps[{i}].value: {given}, but by the rule {rule!r} it is {value}"
            )
    return values[0]


def check(spec: Polynomial, upper: Any) -> tuple[int, str]:
    """The bound that a certificate claims by inequalities, and a sentence."""
    steps = read_steps(upper, spec)
    bound = check_steps(spec, steps)
    inequalities = f"{len(steps)} inequalities" if len(steps) > 1 else "1 inequality"
    return bound, f"{inequalities}: the dimension is at most {bound}."


def work_of(spec: Polynomial, steps: Sequence[Step]) -> float:
    """What the steps take, in seconds: each may count forms, and `quadric` looks at all widths."""
    looks = 10 + sum(step.rule == "quadric" for step in steps)
    return RESIDUES.step + (200 * len(steps) + looks * len(spec.widths)) * RESIDUES.entry


class _Tree:
    """The steps of a dense network with r >= 2."""

    def __init__(self, spec: Polynomial, steps: Sequence[Step]) -> None:
        self.widths, self.degree, self.bias = spec.widths, spec.degree, int(spec.bias)
        self.found: list[_Found] = []
        pending = [Part(self.widths[0] + self.bias, 0, len(self.widths) - 1)]
        for i, step in enumerate(steps):
            if not pending:
                raise RejectionError(f"upper.steps: there should be {i} steps, not {len(steps)}")
            part = pending.pop()
            found = self._rule(step, part)
            if found is None:
                at = f" at {step.at}" if step.rule in PLACED else ""
                count = f"{part.layers} layer" + "s" * (part.layers > 1)
                where = f"upper.steps[{i}]: the rule {step.rule!r}{at}"
                raise RejectionError(f"{where} is not for these widths ({count})")
            self.found.append(found)
            pending += reversed(found[1])
        if pending:
            raise RejectionError(f"upper.steps: {len(steps)} steps, but parts of them are missing")

    def values(self) -> list[int]:
        """What the rules give, each from the values that its parts really have."""
        values: list[int] = []
        open_parts: list[int] = []  # the part that comes first is on top
        for added, parts in reversed(self.found):
            value = added + sum(open_parts.pop() for _ in parts)
            open_parts.append(value)
            values.append(value)
        return values[::-1]

    def _rule(self, step: Step, part: Part) -> _Found | None:
        """What a rule adds to the values of its parts; nothing if it is not for these widths."""
        first, start, stop = part
        before, last = self.widths[stop - 1], self.widths[stop]
        if part.layers == 1:
            return (first * last, []) if step.rule == "weights" else None
        if step.rule == "scales":
            later = self.widths[start + 1 : stop + 1]
            products = sum(a * b for a, b in zip((first, *later), later, strict=False))
            return products + self.bias * sum(later[1:]) - sum(later[:-1]), []
        if step.rule == "rank":
            columns = forms_after(first, self.degree, part.layers - 1) - self.bias
            rank = min(before, last, columns)
            return rank * (last + columns - rank) + self.bias * last, []
        if step.rule == "quadric" and self.degree == 2 and last == 1:
            return self.bias - self._rotations(part), [Part(first, start, stop - 1)]
        cut = start + step.at
        if step.rule == "forms" and start < cut < stop:
            return 0, [Part(forms_after(first, self.degree, step.at), cut, stop)]
        if step.rule == "cut" and start < cut < stop:
            width = self.widths[cut]
            return -width, [Part(first, start, cut), Part(width + self.bias, cut, stop)]
        value = self._one_hidden_layer(step, part) if part.layers == 2 else None
        return None if value is None else (value, [])

    def _rotations(self, part: Part) -> int:
        """The dimension of the orbits of rotations of the squares."""
        hidden = self.widths[part.start + 1 : part.stop]
        m = hidden[-1]
        lines = capped_forms(part.first, 2 ** min(part.layers - 2, 134), m)
        still = m - min(*hidden, lines)
        return m * (m - 1) // 2 - still * (still - 1) // 2

    def _one_hidden_layer(self, step: Step, part: Part) -> int | None:
        """The value by a rule for l = 2; None if the rule does not apply."""
        n, m, k = part.first, self.widths[part.start + 1], self.widths[part.stop]
        r, bias = self.degree, self.bias
        if step.rule == "veronese" and k == 1:
            return powers(n, r, m) + bias
        if step.rule == "doubled" and 0 <= step.at < r:
            f, g = k * forms(n, step.at) - m, forms(n, r - step.at) - m
            return k * forms(n, r) - (f + g - 1) + bias * k if f > 0 and g > 0 else None
        if step.rule == "pfaffian" and r == 2 and k == 3 and n % 2 == 0 and 2 * (m + bias) < 3 * n:
            return k * forms(n, 2) - 1
        free: int | None = None
        if step.rule == "scroll" and n >= 2 and m + bias <= n + 2:
            free = m * (k + 1) + bias * k - k * (r * (n - 1) + 1)
        elif step.rule == "curve" and n >= 2 and (m <= min(n + 2, k + 1) or m <= min(n + 1, k + 2)):
            free = 2 * m - r * (n - 1) - k
        return None if free is None else m * (n + k - 1) + bias * k - max(0, free)


def _linear(spec: Polynomial) -> int:
    rank, first, last = min(spec.widths), spec.widths[0], spec.widths[-1]
    return rank * (first + last - rank) + spec.bias * last


def _filters(spec: Polynomial) -> int:
    total = 1 + sum(layer.kernel - 1 for layer in spec.convolutions)
    if spec.bias:
        total += 1 if spec.degree == 1 else len(spec.layers)
    return total
