"""Pages of diagnose and trace, in a real browser: drawn, and the switch changes the map."""

from pathlib import Path

from typer.testing import CliRunner

from segre.cli.app import app
from support.browser import opened, running
from support.zoo import save_tiny


def test_the_switch_changes_the_map(tmp_path: Path) -> None:
    model = str(save_tiny("llama", tmp_path / "model"))
    page, other = tmp_path / "d.html", tmp_path / "t.html"
    done = CliRunner().invoke(
        app, ["diagnose", model, "--length", "12", "--ablate", "1.1", "-o", str(page)]
    )
    assert f"page: {page}" in done.stdout
    CliRunner().invoke(app, ["trace", model, "--length", "12", "-o", str(other)])
    with running() as browser:
        with opened(browser, page) as seen:
            menu = seen.page.locator(".updatemenu-header").first
            before = menu.text_content()
            menu.click()
            seen.page.locator(".updatemenu-dropdown-button").nth(3).click()
            seen.page.wait_for_timeout(300)
            assert seen.page.locator(".updatemenu-header").first.text_content() != before
            assert "controls" in seen.page.inner_text("body")
            seen.check()
        with opened(browser, other) as seen:
            assert seen.page.locator("text=Which token made it").count() >= 1
            seen.check()
