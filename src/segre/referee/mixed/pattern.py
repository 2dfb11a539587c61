"""How much does each query take from each key? Sections H3 and H4, from scores to weights."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import factorial

from segre.referee.meter import RESIDUES, charge
from segre.referee.mixed.heads import Head
from segre.referee.rejection import RejectionError
from segre.referee.transformers.numbers import Matrix, Numbers, Salts
from segre.referee.transformers.tape import Tape
from segre.slope import Slope


def sees(head: Head, key: int, query: int) -> bool:
    """Whether a query sees a key."""
    one = head.mechanism
    return not (
        (one.causal and key > query)
        or (one.window is not None and abs(query - key) > one.window)
        or (one.local is not None and query // one.local != key // one.local)
    )


def seen_pairs(head: Head) -> int:
    """How many pairs (key, query) are seen; a loop over tokens, but not over pairs."""
    one, t = head.mechanism, head.tokens
    if not head.masked:
        return head.count * t
    total = 0
    for query in range(t):
        first, last = 0, query if one.causal else t - 1
        if one.window is not None:
            first, last = max(first, query - one.window), min(last, query + one.window)
        if one.local is not None:
            block = query // one.local * one.local
            first, last = max(first, block), min(last, block + one.local - 1)
        total += last - first + 1
    return total


def arguments_of(head: Head, scores: Matrix) -> list[object]:
    """The scores that are seen, by key and query."""
    charge(head.count * head.tokens * RESIDUES.entry)
    table = scores.tolist()
    return [
        z for key, row in enumerate(table) for query, z in enumerate(row) if sees(head, key, query)
    ]


def pattern(tape: Tape, head: Head, scores: int, decay: int | None, salts: Salts) -> int:
    """The matrix by which values are mixed; `decay` is the learned one, if there is one."""
    numbers, normalise = tape.numbers, head.mechanism.normalise
    P = _weighed(tape, head, scores, salts)
    if decay is not None:
        exponents = [
            [q - k if sees(head, k, q) else None for q in range(head.tokens)]
            for k in range(head.count)
        ]
        P = tape.times(P, tape.powers(decay, exponents))
    elif head.masked:
        P = tape.times(P, tape.constant(_mask(numbers, head)))
    if normalise == "both":
        sums = tape.product(P, tape.constant(numbers.ones(head.tokens, 1)))
        P = tape.rows_times(P, tape.inverses(sums))
    if normalise != "none":
        sums = tape.product(tape.constant(numbers.ones(1, head.count)), P)
        P = tape.columns_times(P, tape.inverses(sums))
    return tape.shifted(P, Fraction(-1, head.count)) if normalise == "centred" else P


def _weighed(tape: Tape, head: Head, scores: int, salts: Salts) -> int:
    one = head.mechanism
    if one.weigh == "exp":
        return tape.exp(scores, salts)
    if one.weigh == "identity":
        return scores
    if one.weigh != "taylor":
        raise RejectionError(f"spec: weigh={one.weigh} is not known to the referee")
    result = tape.shifted(scores, 1)
    power = scores
    for i in range(2, one.order + 1):
        power = tape.times(power, scores)
        result = tape.sum(result, tape.scaled_by(power, Fraction(1, factorial(i))))
    return result


def _mask(numbers: Numbers, head: Head) -> Matrix:
    """1 where a key is seen, or the power of a decay that is given, and else 0."""
    one, t = head.mechanism, head.tokens
    name = (one, t)
    if name not in numbers.masks:
        charge(3 * head.count * t * numbers.rates.entry)
        powers = _powers(numbers, head)
        entries = [
            powers[max(q - k, 0)] if sees(head, k, q) else 0
            for k in range(head.count)
            for q in range(t)
        ]
        numbers.masks[name] = numbers.matrix(head.count, t, entries)
    return numbers.masks[name]


def _powers(numbers: Numbers, head: Head) -> Sequence[object]:
    """What a key is multiplied by so many tokens later."""
    decay = head.mechanism.decay
    if isinstance(decay, Fraction):
        rate = numbers.number(decay)
    elif isinstance(decay, Slope):
        rate = numbers.slope(decay.exponent, decay.factor)
    else:
        return [1] * head.tokens
    charge(head.tokens * numbers.rates.function)
    scalar = numbers.matrix(1, 1, [rate])
    powers, current = [], numbers.ones(1, 1)
    for _ in range(head.tokens):
        powers.append(current[0, 0])
        current = current * scalar
    return powers
