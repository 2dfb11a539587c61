"""What `segre model trace` finds: the input tokens that an output comes from."""

from __future__ import annotations

from collections import Counter

import numpy as np

from segre.fields.interface import Array
from segre.inspect.trace import WAYS, Trace
from segre.report.blocks import Blocks, Figure, Say, Table, Title, table
from segre.report.charts import heat_map
from segre.report.diagnosis import named
from segre.report.views import data, elsewhere, on_page, terminal, view
from segre.values import listed

_BLOCKS = " ▁▂▃▄▅▆▇█"
_MOST = 12  # tokens that are listed
LENGTHS = ("none", "one", "two", "three", "more")


@view
def of_trace(found: Trace) -> Blocks:
    """A strip for every method, then the tokens with the largest scores."""
    yield Title("Which tokens this output comes from", found.status, terminal=False)
    yield Title(_head(found), style="bold")
    for name, words in WAYS.items():
        yield terminal(Say(f"{name:<10}{strip(found.scores[name])}  {words}", wrap=False))
    yield Say()
    texts = [word.strip() for word in found.words] or [""] * len(found.ids)
    columns = [(name, found.scores[name].__getitem__, ".3g") for name in WAYS]
    most = table("Tokens", _most(found), ("token", int, "d"), ("", texts.__getitem__), *columns)
    every = _every_token(found)
    yield from (terminal(most), elsewhere(every), data([every]))
    said = terms_in_words(found)
    yield Say(said)
    yield on_page([_strips(found)])


def _head(found: Trace) -> str:
    """The traced output."""
    if found.output is None:
        what = "the hidden state"
    else:
        said = f" {found.output_text!r}" if found.output_text else ""
        what = f"the logit of token {found.output}{said} ({found.target:.3f})"
    place = f" ({found.words[found.position]!r})" if found.words else ""
    return f"{named(found.model)}: {what} at token {found.position}{place} of {found.inputs}"


def terms_in_words(found: Trace) -> str:
    """How the terms sum to the output."""
    total = float(found.scores["operator"].sum())
    sums = found.lengths.sum(axis=1)
    least = 1e-12 * float(np.abs(sums).max())  # longer paths than the model has are rounding errors
    known = [(name, term) for name, term in zip(LENGTHS, sums, strict=True) if abs(term) > least]
    split = ", ".join(f"{name} {term:.3g}" for name, term in known)
    return (
        f"operator: tokens {total:.4g} and constants {found.constant:.4g} sum to the target "
        f"{found.target:.4g} (error {found.error:.0e}); by number of heads on the path: {split}"
    )


def strip(values: Array) -> str:
    """One character for each token: the absolute value.

    >>> strip(np.array([0.0, 0.5, -1.0]))
    ' ▄█'
    """
    return "".join(_BLOCKS[round(share * (len(_BLOCKS) - 1))] for share in _shares(values))


def _shares(values: Array) -> list[float]:
    """Absolute values, relative to the largest."""
    size = np.abs(values)
    return [float(one) for one in size / max(float(size.max()), 1e-300)]


def _most(found: Trace) -> list[int]:
    """The tokens with the largest scores by any method, in the order of the text."""
    sizes = [_shares(values) for values in found.scores.values()]
    top = np.argsort(-np.max(sizes, axis=0), kind="stable")[:_MOST]
    return sorted(int(token) for token in top)


def _every_token(found: Trace) -> Table:
    """One row for each token."""
    every = {name: found.scores[name] for name in WAYS}
    every |= dict(zip(LENGTHS, found.lengths, strict=True))
    numbers = ((name, values.astype(float).tolist().__getitem__) for name, values in every.items())
    texts = found.words or [""] * len(found.ids)
    tokens, words = range(len(texts)), ("text", texts.__getitem__)
    numeric = (True, False, *(True,) * len(every))
    title = "Contributions of tokens"
    return table(title, tokens, ("token", int), words, *numbers, numeric=numeric)


def _agreement(found: Trace, labels: list[int | str]) -> str:
    """Which token most of the methods name, if there is one."""
    tops = Counter(int(np.abs(found.scores[way]).argmax()) for way in WAYS)
    (token, most), *others = tops.most_common()
    if others and others[0][1] == most:
        tied = listed([str(labels[one]) for one, _ in sorted(tops.items())])
        return f"Methods differ in which token matters most: tokens {tied}."
    return f"{most} of {len(WAYS)} methods say that token {labels[token]} matters most."


def _strips(found: Trace) -> Figure:
    """Scores of tokens by every method."""
    names = [f"{token} {word.strip()}" for token, word in enumerate(found.words)]
    labels: list[int | str] = list(names or range(len(found.ids)))
    return heat_map(
        "Scores of tokens by every method, relative to the largest",
        ("method", list(WAYS)),
        ("token", labels),
        [_shares(found.scores[way]) for way in WAYS],
        what="size",
        takeaway=_agreement(found, labels),
        note=" ".join(f"{name[:1].upper()}{name[1:]}: {words}." for name, words in WAYS.items()),
    )
