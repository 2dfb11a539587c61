"""What stands out in a checkpoint? The findings of `segre model diagnose`, on the same tokens."""

from __future__ import annotations

from segre.analysis.part import Answer
from segre.analysis.workbench import Workbench
from segre.checkpoint.inputs import RANDOM
from segre.inspect.diagnose import LENGTH, Diagnosis


def what_stands_out(bench: Workbench) -> Answer:
    """Findings of one recorded pass, the most important first, and measures by depth."""
    found = bench.diagnosis
    document = found.document()
    length = None if found.tokens == LENGTH else bench.length
    options = bench.options(length=length, text=bench.text_given, seed=bench.seed)
    return Answer(
        status="measured",
        lead=found.in_words,
        how=f"Measured in one forward pass on {_tokens(found)}, in double "
        "precision. Each kind of finding has a threshold of its own.",
        command=f"segre model diagnose {bench.argument}{options}",
        data={
            "inputs": document["inputs"],
            "loss": found.loss,
            "findings": document["findings"],
            "measures": [one for one in document["measures"] if one["axis"] != "head"],
        },
        details=found,
    )


def _tokens(found: Diagnosis) -> str:
    random = found.inputs == RANDOM
    return f"{found.tokens} {RANDOM}" if random else f"{found.tokens} tokens of {found.inputs}"
