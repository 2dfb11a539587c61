"""XLM-RoBERTa: RoBERTa with a vocabulary of a hundred languages."""

from __future__ import annotations

from segre.models import bert, roberta
from segre.models.family import Values

_VOCABULARY: Values = {"vocab_size": 250002}  # of the public models
FAMILY = roberta.family(
    "xlm-roberta",
    "XLMRoberta",
    30522,
    {
        "xlm-roberta-base": _VOCABULARY,
        "xlm-roberta-large": bert.sizes(24, 1024, 16, **_VOCABULARY),
    },
)
