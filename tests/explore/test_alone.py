"""The static page's functions are segre's: what cannot be translated stops the build."""

import json
import random
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser

from segre.explore.alone.expressions import UntranslatableError
from segre.explore.alone.reached import Reached
from segre.explore.alone.script import script
from segre.explore.designs import presets
from segre.explore.known import by_formulas
from segre.explore.stack_controls import CONTROLS
from segre.json_data import strict_json
from support.browser import opened, running
from support.random_designs import random_design

REFUSED = (
    "transformer/d=8/heads=3/t=3",
    "transformer/d=8/layers=4000/t=3",
    "transformer/d=8/colour=blue/t=3",
    "transformer/d=8/d=9/t=3",
    "transformer/d=many/t=3",
    "transformer/d=8/norm=rms/eps=1e-99/t=3",
    "transformer/d=64/head=65/t=1",
    "softmax/d=64/layers=3/a=8/window=2/conv=full/kernel=2/t=32",
    "poly/3-5-2/degree=3",
    "",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running() as chromium:
        yield chromium


def run(browser: Browser, folder: Path, code: str, expression: str, argument: Any = None) -> Any:
    """What an expression is after a script, in a page of its own."""
    page = folder / "script.html"
    page.write_text(f"<!doctype html><html data-drawn><script>{code}</script></html>", "utf-8")
    with opened(browser, page) as shown:
        return shown.js(expression, argument)


def random_stack(rng: random.Random) -> str:
    """A mechanism with up to three options, at sizes at which it may say nothing."""
    options = [one for one in CONTROLS if one.part != "Sizes" and one.key not in ("kind", "order")]
    chosen = {one.key: rng.choice(one.values or ("true",)) for one in rng.sample(options, 3)}
    kind = rng.choice(next(one for one in CONTROLS if one.key == "kind").values[:-1])
    sizes = {"d": rng.randint(3, 40), "layers": rng.randint(1, 9), "a": rng.randint(1, 12)}
    sizes |= {"heads": rng.randint(1, 6), "t": rng.randint(1, 50)}
    given = {**sizes, **{key: one for key, one in chosen.items() if one not in ("", "none")}}
    return "/".join([str(kind), *(f"{key}={one}" for key, one in given.items())])


def test_every_answer_is_segres_own(browser: Browser, tmp_path: Path) -> None:
    """All of it: numbers, names, theorems with their hypotheses, choices, costs, refusals."""
    rng = random.Random(23)
    specs = [random_design(seed) for seed in range(100, 136)]
    specs += [random_stack(rng) for _ in range(40)]
    specs += [*list(presets().values())[::14], *REFUSED]
    told = run(
        browser,
        tmp_path,
        script() + "globalThis.found = (specs) => specs.map((one) => byFormulas(one, true));",
        "(specs) => JSON.stringify(found(specs), (_, x) => typeof x === 'bigint' ? Number(x) : x)",
        specs,
    )
    answers = [json.loads(strict_json(by_formulas(spec))) for spec in specs]
    for spec, page, own in zip(specs, json.loads(told), answers, strict=True):
        assert page == own, spec
    assert sum("error" not in one for one in answers) > 50
    assert {one["status"] for one in answers if "status" in one} == {
        *("proved", "bounded", "estimated")
    }


def _language(d: int, *, step: int = 2, **more: int) -> list[Any]:
    """Python where it differs from JavaScript."""
    pairs = {(i, str(i)): i**40 for i in range(0, d, step)}
    first, *rest, last = sorted(pairs, key=lambda pair: -pair[0])
    words = [f"{n:,} {first[1]!r}" if n % 3 else "none" for n in pairs.values()]
    found = [-7 // 2, -7 % 3, 2**70 - 1 == 2**70, [] or more.get("k"), (1, "1") in {(1, "1")}]
    return [words[:2], words[-1], len(rest), last, *found, min(rest, key=lambda x: x[0], default=0)]


def test_python_keeps_its_meaning(browser: Browser, tmp_path: Path) -> None:
    code = script() + Reached().code({"language": _language})
    given = "() => $told($keyed(language, [9], [['k', 5]]))"
    code += f"globalThis.answer = {given};"
    assert run(browser, tmp_path, code, "() => answer()") == json.loads(
        json.dumps(_language(9, k=5))
    )


def _opens(name: str) -> str:
    with Path(name).open() as file:
        return file.read()


def _calls(name: str) -> Any:
    return partial(_opens, name)


@pytest.mark.parametrize("function", [_opens, _calls])
def test_what_cannot_be_translated_stops_the_build(function: Any) -> None:
    with pytest.raises(UntranslatableError, match=r"test_alone\._(opens|calls)"):
        Reached().code({"root": function})


def test_what_computes_with_weights_is_not_on_the_page() -> None:
    assert "numpy" not in script()
    assert "</script" not in script()
    assert "<!--" not in script()
