"""The command that serves a page on which designs are changed by hand: explore."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated

import typer

from segre.cli import completion, ending
from segre.cli.output import Out, emit
from segre.errors import SegreError
from segre.files import shown


def explore(
    spec: Annotated[
        str,
        typer.Argument(
            metavar="SPEC",
            help="The design to start with: a name such as llama-3-8b, an inline spec, a "
            "config.json or a directory with one.",
            autocompletion=completion.architecture,
        ),
    ] = "llama-3-8b",
    against: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The preset to compare with (empty: none).",
            autocompletion=completion.architecture,
        ),
    ] = "gpt2",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 chooses a free one.", min=0, max=65535)
    ] = 0,
    browser: Annotated[
        bool,
        typer.Option("--browser/--no-browser", help="Open the page in the default browser."),
    ] = True,
    seconds: Annotated[float, typer.Option(help="Time limit for one answer.", min=1)] = 60,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE.html",
            help="Write the static page instead, which needs no server.",
        ),
    ] = None,
    out: Out = Out(),
) -> None:
    """Change a design by hand on a local page, and see what follows."""
    if output is not None:
        from segre.explore.page import write_static_page

        with out.progress() as progress:
            write_static_page(output, spec, against, progress)
        out.emit(data={"page": shown(output)}, lines=[f"page: {output} (open it in a browser)"])
        return
    from segre.explore.page import served_page
    from segre.explore.server import Explorer

    page, policy = served_page(spec, against)
    try:
        server = Explorer(page, policy, port=port, seconds=seconds)
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


COMMANDS = (
    (
        explore,
        """Examples:
    segre explore
    segre explore qwen3-8b --against llama-3-8b
    segre explore softmax/d=32,32,32/a=8/heads=4/gate=head/t=64
    segre explore llama/d=64/layers=4/heads=4/ff=128/vocab=256/t=32
    segre explore gpt2 --port 8000 --no-browser
    segre explore -o explorer.html
    segre explore qwen3-8b --against llama-3-8b -o qwen.html""",
    ),
)
