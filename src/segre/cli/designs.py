"""Commands about a design: dim, explain, compare, certify, verify, explore."""

from __future__ import annotations

import shlex
import signal
from pathlib import Path
from typing import Any

import typer

from segre.cli import ending
from segre.cli.given import meant
from segre.cli.output import Out, TableOut
from segre.cli.tree import app
from segre.errors import SegreError
from segre.files import extension, shown


@app.answers(
    "specs method several plot head defaults seed memory",
    """segre dim softmax/d=10,10,10/a=2,2/t=3
    segre dim lightning/d=4,4,4/a=2/t=3 --method closed-form
    segre dim llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3
    segre dim llama-3-8b
    segre dim lightning/d=2,4/a=2/heads=3/dv=1/t=2 --method random
    segre dim softmax/d=4096,4096,4096/a=128/t=2048 --method theorem
    segre dim path/to/config.json --head logits --json
    segre dim --compare gpt2 llama-3-8b qwen2-7b --plot redundant.png
    segre dim --compare - --csv < names.txt""",
)
def dim(
    out: TableOut,
    specs: list[str],
    several: bool,
    plot: Path | None,
    head: Any,
    defaults: bool,
    **asked: Any,
) -> None:
    """The functional dimension of an architecture, and how it is known.

    It is the generic local dimension over the reals, at exactly this t, with all V ids as inputs;
    it says nothing about trained weights, discrete symmetries or global fibers.
    """
    from segre.geometry.at_any_size import compare as side_by_side
    from segre.geometry.dimension import dimension
    from segre.models.lists import listed

    if plot is not None and not several:
        raise SegreError("--plot draws several architectures side by side; add --compare")
    if any("=" in spec and "/" not in spec for spec in specs[1:]):
        raise SegreError(
            "a spec is one word; write slashes instead of blanks, as in softmax/d=4,4/a=2/t=3"
        )
    given = [meant(spec, defaults) for spec in listed(specs)]
    if several:
        out.answer(side_by_side, *given, output=head, plot=plot, waiting="comparing")
        return
    if len(given) > 1:
        raise SegreError("several architectures were given; add --compare to see them side by side")
    out.answer(dimension, *given, output=head, symmetries=True, **asked)


@app.answers(
    "spec head defaults seed memory",
    """segre explain llama-3-8b
    segre explain lightning/d=4,4,4/a=2/t=3
    segre explain qwen3/d=8/heads=4/kv=2/head=2/ff=16/vocab=40/t=3""",
)
def explain(out: Out, spec: str, head: Any, **asked: Any) -> None:
    """Explain the symmetries: what removes each, and what training conserves."""
    from segre.geometry.explain import explain as explanation

    out.answer(explanation, spec, output=head, **asked)


@app.answers(
    "specs tokens=4k,32k page plot defaults seed memory",
    """segre compare llama-3-8b llama-3-8b/kv=32 llama-3-8b/tied=true
    segre compare softmax/d=8,8/a=4/t=3 double/d=8,8/a=4/t=3 --t 4k,1M
    segre compare gpt2 llama-3-8b -o designs.html --plot designs.png
    segre compare - --csv < specs.txt""",
)
def compare(
    out: TableOut, specs: list[str], tokens: list[int], defaults: bool, **asked: Any
) -> None:
    """Put designs side by side: dimension, redundancy, collapse, guarantees, cost."""
    from segre.analysis.comparison import compare as side_by_side
    from segre.models.lists import listed

    out.answer(
        side_by_side,
        *(meant(spec, defaults) for spec in listed(specs)),
        t=tokens,
        instead=lambda found: {"specs": specs if defaults else found.names},
        **asked,
    )


@app.answers(
    "spec certificate proof_by convert defaults seed memory",
    """segre certify softmax/d=10,10,10/a=2,2/t=3 -o cert.json
    segre certify poly/3-5-2/degree=3 -o poly.json
    segre certify llama-3-8b -o llama.json
    segre certify --convert old.json -o cert.json""",
)
def certify(
    out: Out,
    spec: str,
    certificate: Path,
    proof_by: Any,
    convert: bool,
    defaults: bool,
    **asked: Any,
) -> None:
    """Write a proof of the dimension that anyone can check."""
    from segre.certificate import certify as make_certificate
    from segre.certificate import convert as converted
    from segre.certificate import write_certificate
    from segre.finding import claim_in_words

    extension(certificate, (".json",))
    with out.progress() as progress:
        if convert:
            document = converted(spec, progress)
        else:
            given = meant(spec, defaults)
            document = make_certificate(given, method=proof_by, progress=progress, **asked)
    write_certificate(document, certificate)
    claim, theorem = document["claim"], document["lower"].get("name")
    by = {"kind": "computation" if theorem is None else "theorem", "theorem": theorem}
    out.emit(
        data={"file": shown(certificate), "digest": document["digest"], **claim, **by},
        lines=(
            f"{certificate}: {claim_in_words(claim, theorem)}",
            f"check it with: {shlex.join(('segre', 'verify', str(certificate)))}",
        ),
    )


@app.answers(
    "proof seconds",
    """segre verify cert.json
    segre verify - --seconds 60 < cert.json""",
    note="Exit code 0: valid; 1: invalid, with the reason; 2: not a certificate; 3: not checked in "
    "time.",
)
def verify(out: Out, proof: Path, **asked: Any) -> None:
    """Check a proof with code that shares no arithmetic with the prover."""
    from segre.kernel import verify as check

    out.answer(
        check,
        proof,
        data={"file": shown(proof)},
        code=lambda verdict: 0 if verdict.valid else 1,
        **asked,
    )


@app.answers(
    "start preset port browser patience static_page",
    """segre explore
    segre explore qwen3-8b --against llama-3-8b
    segre explore softmax/d=32,32,32/a=8/heads=4/gate=head/t=64
    segre explore llama/d=64/layers=4/heads=4/ff=128/vocab=256/t=32
    segre explore gpt2 --port 8000 --no-browser
    segre explore -o explorer.html
    segre explore qwen3-8b --against llama-3-8b -o qwen.html""",
)
def explore(
    out: Out,
    start: str,
    preset: str,
    port: int,
    browser: bool,
    patience: float,
    static_page: Path | None,
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
        out.emit(
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
