"""Does a tree of inequalities bound the dimension? Every step by its rule.

The steps are read twice: forwards to find the widths that each is about, and backwards to compute
its value from those of its parts.
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
        self.steps = steps
        self.parts: list[Part] = []
        pending = [Part(self.widths[0] + self.bias, 0, len(self.widths) - 1)]
        for i, step in enumerate(steps):
            if not pending:
                raise RejectionError(f"upper.steps: there should be {i} steps, not {len(steps)}")
            self.parts.append(pending.pop())
            pending += reversed(self._below(i, step))
        if pending:
            raise RejectionError(f"upper.steps: {len(steps)} steps, but parts of them are missing")

    def values(self) -> list[int]:
        """What the rules give, each from the values that its parts really have."""
        found: list[int] = []
        open_parts: list[int] = []  # the part that comes first is on top
        for i in range(len(self.steps) - 1, -1, -1):
            step, part = self.steps[i], self.parts[i]
            if step.rule == "forms":
                value = open_parts.pop()
            elif step.rule == "cut":
                value = open_parts.pop() + open_parts.pop() - self.widths[part.start + step.at]
            elif step.rule == "quadric":
                value = open_parts.pop() - self._rotations(part) + self.bias
            else:
                value = self._alone(i, step, part)
            open_parts.append(value)
            found.append(value)
        return found[::-1]

    def _rotations(self, part: Part) -> int:
        """The dimension of the orbits of rotations of the squares."""
        hidden = self.widths[part.start + 1 : part.stop]
        m = hidden[-1]
        lines = capped_forms(part.first, 2 ** min(part.layers - 2, 134), m)
        still = m - min(*hidden, lines)
        return m * (m - 1) // 2 - still * (still - 1) // 2

    def _refuse(self, i: int, step: Step, part: Part) -> RejectionError:
        at = f" at {step.at}" if step.rule in PLACED else ""
        count = f"{part.layers} layer" + "s" * (part.layers > 1)
        return RejectionError(
            f"upper.steps[{i}]: the rule {step.rule!r}{at} is not for these widths ({count})"
        )

    def _below(self, i: int, step: Step) -> list[Part]:
        """The parts of a step, in their order."""
        part = self.parts[i]
        if step.rule == "quadric":
            if part.layers < 2 or self.degree != 2 or self.widths[part.stop] != 1:
                raise self._refuse(i, step, part)
            return [Part(part.first, part.start, part.stop - 1)]
        if step.rule not in ("forms", "cut"):
            return []
        if not 1 <= step.at < part.layers:
            raise self._refuse(i, step, part)
        cut = part.start + step.at
        if step.rule == "forms":
            return [Part(forms_after(part.first, self.degree, step.at), cut, part.stop)]
        after = Part(self.widths[cut] + self.bias, cut, part.stop)
        return [Part(part.first, part.start, cut), after]

    def _alone(self, i: int, step: Step, part: Part) -> int:
        """The value by a rule without parts."""
        if part.layers == 1:
            if step.rule != "weights":
                raise self._refuse(i, step, part)
            return part.first * self.widths[part.stop]
        if step.rule == "scales":
            return self._scales(part)
        if step.rule == "rank":
            last, before = self.widths[part.stop], self.widths[part.stop - 1]
            columns = forms_after(part.first, self.degree, part.layers - 1) - self.bias
            rank = min(before, last, columns)
            return rank * (last + columns - rank) + self.bias * last
        found = self._one_hidden_layer(step, part) if part.layers == 2 else None
        if found is None:
            raise self._refuse(i, step, part)
        return found

    def _scales(self, part: Part) -> int:
        total, before = 0, part.first
        for i in range(part.start + 1, part.stop + 1):
            width = self.widths[i]
            total += before * width
            if i > part.start + 1:
                total += self.bias * width
            if i < part.stop:
                total -= width
            before = width
        return total

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
    return rank * (first + last - rank) + (last if spec.bias else 0)


def _filters(spec: Polynomial) -> int:
    total = 1 + sum(layer.kernel - 1 for layer in spec.convolutions)
    if spec.bias:
        total += 1 if spec.degree == 1 else len(spec.layers)
    return total
