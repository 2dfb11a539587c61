"""How accurate is a trained network if only some of its paths are read out?

A network with skips is the sum of its paths. The readout is given

    exact       the sum of all paths of length k, as they are in the network: nothing is sampled
    up to k     all paths of length at most k, and the biases; at k = L this is the network itself
    isolated    the sum of a few sampled paths of length k, each run as a network of its own, with
                one head in each layer that it goes through: what the published code does

The biases of the layers belong to no path: `exact` is without them; an isolated network keeps those
of its layers. In networks with norms between layers the exact terms are those with the roots of the
norms fixed; an isolated path is normalised after every head, without gain and bias, and so is
the sum, as in the published code.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np

from segre.collapse.paths import Path, isolated, path_sums, sample_paths
from segre.collapse.stack import FloatNetwork
from segre.fields.interface import Array
from segre.geometry.progress import Progress, quiet
from segre.reproduce.networks import PathNetwork, embedded, plain_norm, readout
from segre.reproduce.path_tasks import Examples

TOKENS = 8000  # of examples that are read at once
REPEATS = 5  # draws of isolated paths


def read_paths(
    model: PathNetwork,
    examples: Examples,
    drawn: Sequence[int],
    seed: int,
    progress: Progress = quiet,
) -> dict[str, Any]:
    """Accuracies by length: exact, up to, and isolated for each number of paths drawn."""
    lengths = range(model.shape.layers + 1)
    exact, up_to = np.zeros((2, len(lengths)))
    alone = np.zeros((len(drawn), len(lengths), REPEATS))
    full = 0.0
    parts = list(parts_of(examples))
    for number, part in enumerate(parts):
        progress("reading paths", number, len(parts))
        share = part.labels.size / examples.labels.size

        def right(tokens: Array, part: Examples = part, share: float = share) -> float:
            found = readout(model, tokens).argmax(axis=-1)
            return share * float((found == part.labels).mean())

        done = model.recorded(embedded(model, part.inputs))
        sums = path_sums(done)
        full += right(done.output)
        so_far = sums.bias
        for k in lengths:
            exact[k] += right(sums.by_length[k])
            so_far = so_far + sums.by_length[k]
            up_to[k] += right(so_far)
            outputs = Isolated(model, done.X)
            for place, count in enumerate(drawn):
                for attempt in range(REPEATS):
                    paths = sample_paths(done, k, count, seed=(seed * 100 + k) * 1000 + attempt)
                    alone[place, k, attempt] += right(outputs.sum(paths))
    return {
        "accuracy": full,
        "exact": exact,
        "up_to": up_to,
        "isolated": alone.mean(axis=-1),
        "spread": alone.std(axis=-1),
    }


class Isolated:
    """Paths as networks of their own, for tokens X; each is run once."""

    def __init__(self, model: PathNetwork, X: Array) -> None:
        self.stack, self.norms, self.X = model.stack(), model.shape.norms, X
        self.output = cache(self._run)

    def sum(self, paths: Sequence[Path]) -> Array:
        """The sum of their outputs, which may occur more than once."""
        total = np.sum([self.output(path) for path in paths], axis=0)
        return plain_norm(total) if self.norms else np.asarray(total)

    def _run(self, path: Path) -> Array:
        if not self.norms:
            return isolated(self.stack, path).forward(self.X).output
        tokens = self.X
        for (heads, mlp), h in zip(self.stack.layers, path, strict=True):
            if h:
                layer = FloatNetwork(((heads.only(h), mlp),), skip=False, mlp_skip=True)
                tokens = plain_norm(layer.forward(tokens).output)
        return tokens


def network_accuracy(model: PathNetwork, examples: Examples) -> float:
    """The share of tokens whose label the network gives."""
    found = 0
    for part in parts_of(examples):
        logits = readout(model, model.recorded(embedded(model, part.inputs)).output)
        found += int((logits.argmax(axis=-1) == part.labels).sum())
    return found / examples.labels.size


def ceiling(examples: Examples) -> float:
    """The best accuracy if equal words of a sentence must get equal labels (0 or 1)."""
    best = 0
    for words, labels in zip(examples.inputs, examples.labels, strict=True):
        ones, all_of_it = np.bincount(words, weights=labels), np.bincount(words)
        best += int(np.maximum(ones, all_of_it - ones).sum())
    return best / examples.labels.size


def parts_of(examples: Examples) -> Iterator[Examples]:
    """The examples, in parts that fit into memory."""
    step = max(1, TOKENS // examples.labels.shape[1])
    for start in range(0, len(examples.labels), step):
        part = slice(start, start + step)
        yield Examples(examples.inputs[part], examples.labels[part])
