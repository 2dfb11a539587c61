"""What is looked into: a checkpoint with its head, or a spec with random weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

from segre.checkpoint.model import described
from segre.checkpoint.opening import opened, trained
from segre.collapse.models import Runnable, load, with_vocabulary
from segre.errors import SegreError
from segre.models import Source, called, with_attention
from segre.transformer.drawn import Drawn


@dataclass(frozen=True)
class Subject(Runnable):
    """A transformer with its head."""

    @property
    def predicts(self) -> bool:
        """Whether it predicts next tokens, so that it has a loss on a text."""
        spec = self.spec
        return spec.causal and spec.output == "logits" and not (spec.labels or spec.pooler)

    def twin(self, seed: int = 0) -> Subject:
        """The same architecture with random weights."""
        return Subject(f"{self.name} with random weights", Drawn(self.spec, seed), None, seed)


def subject(given: Source, seed: int = 0) -> Subject:
    """Load the model to inspect; random weights are seeded.

    Where the head of a checkpoint is of a kind that is not known, the model ends with its hidden
    states.
    """
    if trained(given):
        store = opened(given)
        try:
            return Subject(store.name, described(store), store.directory)
        except SegreError:
            loaded = load(given)
            return Subject(loaded.name, loaded.weights, loaded.folder)
    with_attention(given, "this command")
    spec = with_vocabulary(given)
    if spec.output == "softmax":
        spec = replace(spec, output="logits")
    return Subject(called(given), Drawn(spec, seed), None, seed)
