"""What do the words of the field mean? One sentence each, shown where a page uses the word.

A page marks the first use of a word in each of its sections, and lists the words that it used at
its end. docs/report.md has the same table; tests/report/test_glossary.py compares the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

GLOSSARY: dict[str, str] = {
    "functional dimension": "The number of independent directions in which the function can "
    "change when the parameters do: parameters minus redundant ones.",
    "redundant": "Redundant parameters are directions in parameter space along which the function "
    "stays exactly the same.",
    "symmetry": "A change of the weights that leaves the function exactly as it is, such as "
    "another basis inside a head.",
    "gauge": "The choice among all weights that give the same function; it is stored in the file, "
    "but no output depends on it.",
    "fiber": "All weights that give one and the same function.",
    "generic": "Holding for all weights except a set of measure zero.",
    "stratum": "A set of special weights that all have the same additional symmetries.",
    "special point": "Weights with more symmetries than the design gives: a rank-deficient head, "
    "or a unit with zero output.",
    "certificate": "A file with a claim and all numbers needed to check it, so that independent "
    "code can verify it without trusting segre.",
    "kernel": "The part of segre that checks certificates; it shares no arithmetic with the part "
    "that makes them.",
    "theorem": "A statement with a written proof; segre checks that its hypotheses hold for this "
    "architecture.",
    "Jacobian": "The matrix of derivatives of the outputs by the parameters; its rank is the "
    "functional dimension.",
    "minor": "The determinant of a square part of a matrix; one that is not zero proves a lower "
    "bound on the rank.",
    "relative residual": "How different the tokens are after a layer: about 1 if they have nothing "
    "in common, 0 if all of them are the same.",
    "collapse": "Tokens become alike with depth, so that the matrix of tokens tends to rank one.",
    "stable rank": "The number of directions that carry weight in a matrix: its squared Frobenius "
    "norm over its squared largest singular value.",
    "singular value": "A matrix stretches some direction by each of its singular values; small "
    "ones are directions that it nearly ignores.",
    "condition number": "The largest singular value over the smallest that is not zero; large "
    "numbers mean that some direction is nearly lost.",
    "QK": "The product of a head's query and key matrices, which decides where the head looks.",
    "OV": "The product of a head's output and value matrices, which decides what the head moves.",
    "attention sink": "A token that many heads attend to whatever the text says.",
    "entropy": "How evenly attention is spread: 0 if it is all on one token, and largest if every "
    "token gets the same.",
    "path": "One way through the layers: in every layer through one head, or past all heads.",
    "spectrum": "The singular values of a matrix, from the largest to the smallest.",
    "skip": "The connection that adds the input of a sub-layer to its output.",
}
_FORMS = {  # that are not made with an s
    "kernel": "kernel(?! of)",  # that of a matrix is another
    "redundant": "redundan(?:t|cy)",
    "symmetry": "symmetr(?:y|ies)",
    "stratum": "strat(?:um|a)",
    "spectrum": "spectr(?:um|a)",
}
# Longer words first: "special point" is no "point".
_WORDS = sorted(GLOSSARY, key=len, reverse=True)
_PATTERN = re.compile(
    "|".join(
        rf"(?P<w{n}>\b(?:{_FORMS.get(word, f'{word}s?')})\b)" for n, word in enumerate(_WORDS)
    ),
    re.IGNORECASE,
)
_AS_WRITTEN = frozenset({"QK", "OV"})  # small letters are something else


def marked(text: str, known: set[str]) -> Iterator[tuple[str, str]]:
    """The text in pieces, each with its word of the glossary, or with nothing.

    A word that is in `known` is not marked again; what is marked is added to it.

    >>> seen = set()
    >>> list(marked("Gauges of a fiber; another gauge.", seen))
    [('Gauges', 'gauge'), (' of a ', ''), ('fiber', 'fiber'), ('; another gauge.', '')]
    >>> sorted(seen)
    ['fiber', 'gauge']
    """
    done = 0
    for found in _PATTERN.finditer(text):
        word = _WORDS[int((found.lastgroup or "w0")[1:])]
        if word in known or (word in _AS_WRITTEN and found[0] != word):
            continue
        known.add(word)
        if found.start() > done:
            yield text[done : found.start()], ""
        yield found[0], word
        done = found.end()
    if done < len(text):
        yield text[done:], ""
