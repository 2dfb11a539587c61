"""A checkpoint with tied embeddings, given a separate unembedding.

The function stays the same. But the gain of the last norm, which a tied table cannot absorb, is
then absorbed by the unembedding: the stream of a pre-norm model can be rotated by any orthogonal
matrix, not only permuted.
"""

from __future__ import annotations

from segre.checkpoint.layout import layout
from segre.checkpoint.model import Model, described
from segre.errors import UnsupportedError
from segre.models.registry import from_config
from segre.symmetry.compact import stream_freedom


def untied(model: Model) -> Model:
    """The model with a copy of its token table as unembedding; unchanged if it has one already."""
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
