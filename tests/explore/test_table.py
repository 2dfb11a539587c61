"""The table of the static page: segre's own answers, for the designs that its controls offer."""

import base64
import gzip
import json
import random
import re
from pathlib import Path
from typing import Any

import pytest

from segre.explore import controls, stack_controls
from segre.explore.control import NONE
from segre.explore.designs import FIRST, STACK, design, families, family_of, presets, shown_first
from segre.explore.grid import as_written, changed, designs_around, in_words, key_of, table
from segre.explore.known import by_formulas
from segre.explore.stack_controls import FIRST_STACK
from segre.json_data import strict_json
from support.random_designs import random_design

CONTROLS = {"transformer": controls.CONTROLS, STACK: stack_controls.CONTROLS}


@pytest.mark.parametrize("seed", range(12))
def test_a_change_is_of_one_control(seed: int) -> None:
    """A changed design has the new value, and differs elsewhere only where the control says so."""
    rng = random.Random(seed)
    seen = 0
    for text in (random_design(seed), *rng.sample(sorted(presets().values()), 3)):
        text = as_written(text)
        family = family_of(text)
        for control in rng.sample(CONTROLS[family], 8):
            value = str(rng.choice(control.values or ("false", "true")))
            other = changed(text, control, value)
            usual = families()[family]["usual"]
            before, after = _values(text), _values(other)
            if value not in (usual[control.key], "", NONE) and control.key in after:
                assert after[control.key] == value, (text, control.key)
                seen += 1
            unmeant = {one.key for one in CONTROLS[family] if one.when}
            free = {control.key, *control.drops, *control.resets, *unmeant}
            gone = {key for key in before if after.get(key) != before[key]}
            assert gone - free <= {key for key in gone if before[key] == usual.get(key)}
            assert set(after) - set(before) <= {control.key}
            # a second change back to the first value of a plain control gives the first design
            if not control.drops and not control.resets and control.key in before:
                back = _values(changed(other, control, before[control.key]))
                assert {key: back.get(key) for key in before if key not in unmeant} == {
                    key: one for key, one in before.items() if key not in unmeant
                }
    assert seen > 5


def _values(text: str) -> dict[str, str]:
    kind, *pairs = text.split("/")
    return {"kind": kind} | dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize("first", [FIRST, "gpt2", "softmax/d=32,32,32/a=8/heads=4/gate=head/t=64"])
def test_the_grid_has_every_preset_and_is_read_by_segre(first: str) -> None:
    base = as_written(shown_first(first))
    every = designs_around([base], [as_written(one) for one in presets().values()])
    keys = {key_of(text) for text in every}
    assert len(keys) == len(every)
    assert key_of(base) in keys
    assert {key_of(as_written(one)) for one in presets().values()} <= keys
    for text in random.Random(first).sample(every, 60):
        assert design(text) == design(key_of(text))


def test_widths_are_written_once() -> None:
    rng = random.Random(5)
    for _ in range(40):
        widths = [rng.randint(2, 9)] * rng.randint(2, 5)
        if rng.random() < 0.3:
            widths = [rng.randint(2, 9) for _ in widths]
        text = f"softmax/d={','.join(map(str, widths))}/a=2/t=3"
        assert design(as_written(text)) == design(text)
        assert as_written(as_written(text)) == as_written(text)


def test_every_answer_is_segres_own(static_file: Path) -> None:
    """What the page carries is what segre says of the design, complete, refusals included."""
    packed = re.search(r'id="table">([^<]*)<', static_file.read_text(encoding="utf-8"))
    assert packed is not None
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    rng, named = random.Random(23), {key_of(as_written(one)) for one in presets().values()}
    assert named < set(found)
    kinds = set()
    for text in [*rng.sample(sorted(found), 60), *rng.sample(sorted(named), 6)]:
        own = json.loads(strict_json(by_formulas(text)))
        if text not in named and "error" not in own and found[text]["choices"] is None:
            own["choices"] = None  # counted for presets
        assert found[text] == own, text
        kinds.add(own.get("status", "error"))
    assert kinds >= {"proved", "bounded", "estimated"}
    assert "numpy" not in static_file.read_text(encoding="utf-8")


def test_progress_is_shown_and_stops_what_it_is_told_to() -> None:
    class StoppedError(Exception):
        pass

    def progress(stage: str, done: int, total: int) -> None:
        assert stage == "designs"
        assert total > 500
        if done == 3:
            raise StoppedError

    with pytest.raises(StoppedError):
        table(presets()[FIRST], progress)


def test_what_is_in_the_page_is_said() -> None:
    said = in_words({"transformer": FIRST, STACK: f"the {FIRST_STACK}"})
    assert said[0].startswith(
        "llama-3-8b; with any one control changed; with two changed of layers"
    )
    assert said[1].startswith("the softmax stack; ")
    assert "key-value heads" in said[2]
