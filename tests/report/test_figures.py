"""Interactive plots in a real browser: drawn under their policy, and names stay names."""

from dataclasses import replace
from html import unescape
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from segre.geometry.slices import discriminant, fiber_curve, segre_cone
from segre.report.png import draw
from segre.spec import Network
from segre.sweep.picture import Cell, Mark, Picture
from segre.weights import Weights
from support.browser import opened

HOSTILE = (
    '<a href="https://evil.example/?x">click</a>',
    "</script><script>window.bad = 1</script>",
    '<img src=x onerror="window.bad = 1">',
    "<b>bold</b> & $\\frac$ ]]> -->",
)


def sweep(name: str) -> Picture:
    marks = (Mark(name, 3, 4, 4, "fails"), Mark(name, 3, 2, 5, name))
    return Picture(name, name, name, marks, name, name, (Cell(1, 1, 2, 1, 0.5),))


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_no_markup(name: str, browser: Browser, tmp_path: Path) -> None:
    draw(sweep(name), tmp_path / "sweep.html")
    with opened(browser, tmp_path / "sweep.html") as seen:
        seen.drawn()
        assert seen.js("document.querySelectorAll('a[href*=evil], img').length") == 0
        assert seen.js("document.querySelectorAll('.plot svg a').length") == 0
        assert seen.js("typeof window.bad") == "undefined"
        assert seen.js("document.querySelector('h1').textContent") == name
        assert seen.js("document.querySelector('.subtitle').textContent") == name
        seen.check()


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_no_formulas(name: str, tmp_path: Path) -> None:
    draw(sweep(name), tmp_path / "sweep.svg")
    assert (tmp_path / "sweep.svg").stat().st_size > 5000


def test_every_page_is_drawn_under_its_policy(browser: Browser, tmp_path: Path) -> None:
    pictures = {
        "cone": segre_cone(),
        "discriminant": discriminant([(HOSTILE[0], np.ones((1, 2)), np.ones((2, 2)), 1)]),
        "fiber": fiber_curve(Weights.random(Network.parse("softmax/d=3,3/a=2/t=3"))),
    }
    for name, picture in pictures.items():
        file = tmp_path / f"{name}.html"
        draw(picture, file)
        text = file.read_text(encoding="utf-8")
        assert "script-src 'sha256-" in unescape(text[:3000])
        assert "unsafe-eval" not in text[:3000]
        with opened(browser, file) as seen:
            seen.drawn()
            assert seen.js("document.querySelectorAll('.plot svg').length") > 0
            assert seen.js("document.querySelectorAll('.plot svg a').length") == 0
            blocked = [said for said in seen.complaints if "Content Security" in said]
            assert blocked == []
            assert seen.foreign == []


def test_a_name_may_be_long(tmp_path: Path) -> None:
    draw(replace(sweep("d"), name="n" * 10_000), tmp_path / "sweep.html")
    assert (tmp_path / "sweep.html").exists()
