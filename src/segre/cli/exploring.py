"""The command that serves a page on which designs are changed by hand: explore."""

from __future__ import annotations

import signal
from pathlib import Path

import typer

from segre.cli import ending
from segre.cli.output import Out, emit
from segre.cli.tree import app
from segre.errors import SegreError
from segre.files import shown


@app.answers("""segre explore
    segre explore qwen3-8b --against llama-3-8b
    segre explore softmax/d=32,32,32/a=8/heads=4/gate=head/t=64
    segre explore llama/d=64/layers=4/heads=4/ff=128/vocab=256/t=32
    segre explore gpt2 --port 8000 --no-browser
    segre explore -o explorer.html
    segre explore qwen3-8b --against llama-3-8b -o qwen.html""")
def explore(
    start: str = "llama-3-8b",
    preset: str = "gpt2",
    port: int = 0,
    browser: bool = True,
    patience: float = 60,
    static_page: Path | None = None,
    out: Out = Out(),
) -> None:
    """Change a design by hand on a local page, and see what follows."""
    if static_page is not None:
        from segre.explore.page import write_static_page

        with out.progress() as progress:
            write_static_page(static_page, start, preset, progress)
        out.emit(
            data={"page": shown(static_page)}, lines=[f"page: {static_page} (open it in a browser)"]
        )
        return
    from segre.explore.page import served_page
    from segre.explore.server import Explorer

    page, policy = served_page(start, preset)
    try:
        server = Explorer(page, policy, port=port, seconds=patience)
    except OSError as error:
        raise SegreError(
            f"--port {port} cannot be used ({error.strerror}); leave it out to take a free one"
        ) from None
    with server:
        emit(
            None,
            out.format,
            data={"url": server.url},
            lines=[
                f"Design explorer: {server.url}",
                "Only this machine can open it. Ctrl-C stops it.",
            ],
        )
        typer.get_text_stream("stdout").flush()
        for worker in server.workers.values():
            worker.start()
        if browser:
            import webbrowser

            webbrowser.open(server.url)
        # Ctrl-C is how it is meant to stop; a request to end is an interruption
        signal.signal(signal.SIGTERM, lambda *_: ending.stop_for_interruption())
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            if out.is_text:
                print("\nstopped")
