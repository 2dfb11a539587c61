"""XLM-RoBERTa: RoBERTa with a vocabulary of a hundred languages."""

from __future__ import annotations

from segre.models import roberta
from segre.models.family import Values


def _preset(*sizes: int) -> Values:
    return roberta.preset("xlm-roberta", "XLMRobertaForMaskedLM", 250002, *sizes)


FAMILY = roberta.family(
    "xlm-roberta",
    "XLMRoberta",
    30522,
    {
        "xlm-roberta-base": _preset(12, 768, 12),
        "xlm-roberta-large": _preset(24, 1024, 16),
    },
)
