"""A checkpoint whose unembedding is its table of tokens, with an unembedding of its own.

The function stays what it is. But the gain of the last norm, which a tied table keeps from being
absorbed, is then absorbed by the unembedding: the stream of a pre-norm model can be turned by any
orthogonal matrix, and not by orders of its coordinates alone.
"""

from __future__ import annotations

from segre.checkpoint.alignment import stream_freedom
from segre.checkpoint.layout import layout
from segre.checkpoint.model import Model, described
from segre.errors import UnsupportedError
from segre.models.registry import from_config


def untied(model: Model) -> Model:
    """The model with a copy of its table of tokens as unembedding; as it is, if it has its own."""
    if not model.spec.tied:
        return model
    config = {**model.store.config, "tie_word_embeddings": False}
    spec = from_config(config, model.name, defaults=False)
    where = {
        name: held.file
        for every in layout(spec, model.family, config).values()
        for held in every
        for name in held.names
    }
    table = next(held.file for held in model.held["embed"] if "tokens" in held.names)
    if spec.transform or "W_U" not in where or stream_freedom(spec) != "orthogonal":
        raise UnsupportedError(
            f"{model.name!r}: --untie has no effect on a {model.family} model; allowed: pre-norm "
            "models"
        )
    return described(model.store.with_copy(table, where["W_U"], config))
