"""Commands about an architecture: dim, explain, certify, verify, symmetries."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from segre.cli import completion
from segre.cli.options import Defaults, Memory, Seed, Spec, Specs, meant, memory_bytes
from segre.cli.output import Out, TableOut
from segre.cli.pages import draw, require_writable
from segre.errors import SegreError
from segre.files import extension, shown

if TYPE_CHECKING:
    from segre.certificate import By
    from segre.finding import Finding, Findings
    from segre.geometry.dimension import Method
    from segre.transformer.choices import Output

OUTPUTS = ("logits", "softmax")
Asked = Annotated[
    str | None,
    typer.Option(
        "--output",
        help="Take another output of a language model: logits or softmax.",
        autocompletion=completion.one_of(lambda: OUTPUTS),
    ),
]


def dim(
    specs: Specs,
    method: Annotated[
        str,
        typer.Option(
            help="auto (proved bounds: computed, or by a theorem if the network is large; where "
            "they do not meet, the rank at random points, which is certain or likely, not proved), "
            "theorem (only by a theorem), exact (only by computation), random (exact, and then "
            "random points at any size), balls (lower bound in "
            "certified real arithmetic), closed-form (upper bound by the formula for "
            "stacks), count (upper bound by counting symmetries of transformers) or "
            "estimate (floating-point rank, which proves nothing).",
            autocompletion=completion.one_of(completion.methods),
        ),
    ] = "auto",
    compare: Annotated[
        bool, typer.Option("--compare", help="Compare several transformers, one line each.")
    ] = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --compare: also draw a plot: .png, .svg or .pdf."),
    ] = None,
    output: Asked = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: TableOut = TableOut(),
) -> None:
    """The functional dimension of an architecture, and how it is known.

    It is the generic local dimension over the reals, at exactly this t, with all V ids as inputs;
    it says nothing about trained weights, discrete symmetries or global fibers.
    """
    from segre.geometry.compare import compare as side_by_side
    from segre.geometry.dimension import dimension
    from segre.models.lists import listed

    if plot is not None and not compare:
        raise SegreError("--plot draws several architectures side by side; add --compare")
    require_writable(plot=plot)
    if any("=" in spec and "/" not in spec for spec in specs[1:]):
        raise SegreError(
            "a spec is one word; write slashes instead of blanks, as in softmax/d=4,4/a=2/t=3"
        )
    given = [meant(spec, defaults) for spec in listed(specs)]
    if len(given) > 1 and not compare:
        raise SegreError("several architectures were given; add --compare to see them side by side")
    wanted = _asked(output)
    limit = memory_bytes(memory)
    found: Findings | Finding
    with out.progress() as progress:
        if compare:
            found = side_by_side(*given, output=wanted)
        else:
            found = dimension(
                given[0],
                method=cast("Method", method),
                seed=seed,
                output=wanted,
                symmetries=True,
                memory=limit,
                progress=progress,
            )
    draw(found, plot)
    out.emit(found, files={} if plot is None else {"plot": plot})


def explain(
    spec: Spec,
    output: Asked = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Explain the symmetries: what removes each, and what training conserves."""
    from segre.geometry.explain import explain as explanation

    wanted = _asked(output)
    with out.progress() as progress:
        found = explanation(
            meant(spec, defaults),
            seed,
            output=wanted,
            memory=memory_bytes(memory),
            progress=progress,
        )
    out.emit(found)


def symmetries(
    spec: Spec,
    output: Asked = None,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Another name for explain."""
    explain(spec, output, defaults, seed, memory, out)


def _asked(output: str | None) -> Output | None:
    if output is not None and output not in OUTPUTS:
        raise SegreError(f"--output {output!r} is not allowed; allowed: {', '.join(OUTPUTS)}")
    return cast("Output | None", output)


def certify(
    spec: Spec,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="File to write.")],
    method: Annotated[
        str,
        typer.Option(
            help="auto (a computation, or a theorem if the network is too large for one), exact "
            "(a computation) or theorem.",
            autocompletion=completion.one_of(lambda: ("auto", "exact", "theorem")),
        ),
    ] = "auto",
    convert: Annotated[
        bool,
        typer.Option(
            "--convert",
            help="SPEC is a certificate of an earlier version: write it in the version of today.",
        ),
    ] = False,
    defaults: Defaults = False,
    seed: Seed = 0,
    memory: Memory = "8G",
    out: Out = Out(),
) -> None:
    """Write a proof of the dimension that anyone can check."""
    from segre.certificate import certify as make_certificate
    from segre.certificate import write_certificate
    from segre.conversion import convert as converted
    from segre.report.proofs import claim_in_words

    extension(output, (".json",))
    with out.progress() as progress:
        if convert:
            document = converted(spec, progress)
        else:
            document = make_certificate(
                meant(spec, defaults),
                seed=seed,
                method=cast("By", method),
                memory=memory_bytes(memory),
                progress=progress,
            )
    write_certificate(document, output)
    claim, theorem = document["claim"], document["lower"].get("name")
    by = {"kind": "computation" if theorem is None else "theorem", "theorem": theorem}
    out.emit(
        data={"file": shown(output), "digest": document["digest"], **claim, **by},
        lines=(
            f"{output}: {claim_in_words(claim, theorem)}",
            f"check it with: {shlex.join(('segre', 'verify', str(output)))}",
        ),
    )


def verify(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="A certificate file; - reads standard input.")
    ],
    seconds: Annotated[
        float,
        typer.Option(
            help="Time limit; past it the answer is inconclusive, with exit code 3.", min=0
        ),
    ] = 3600,
    out: Out = Out(),
) -> None:
    """Check a proof with code that shares no arithmetic with the prover."""
    from segre.kernel import verify as check

    with out.progress() as progress:
        verdict = check(file, progress=progress, seconds=seconds)
    out.emit(verdict, data={"file": shown(file)}, code=0 if verdict.valid else 1)


COMMANDS = (
    (
        dim,
        """Examples:
    segre dim softmax/d=10,10,10/a=2,2/t=3
    segre dim lightning/d=4,4,4/a=2/t=3 --method closed-form
    segre dim llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3
    segre dim llama-3-8b
    segre dim lightning/d=2,4/a=2/heads=3/dv=1/t=2 --method random
    segre dim softmax/d=4096,4096,4096/a=128/t=2048 --method theorem
    segre dim path/to/config.json --output logits --json
    segre dim --compare gpt2 llama-3-8b qwen2-7b --plot redundant.png
    segre dim --compare - --csv < names.txt""",
    ),
    (
        explain,
        """Examples:
    segre explain llama-3-8b
    segre explain lightning/d=4,4,4/a=2/t=3
    segre explain qwen3/d=8/heads=4/kv=2/head=2/ff=16/vocab=40/t=3""",
    ),
    (
        certify,
        """Examples:
    segre certify softmax/d=10,10,10/a=2,2/t=3 -o cert.json
    segre certify poly/3-5-2/degree=3 -o poly.json
    segre certify llama-3-8b -o llama.json
    segre certify --convert old.json -o cert.json""",
    ),
    (
        verify,
        """Examples:
    segre verify cert.json
    segre verify - --seconds 60 < cert.json

Exit code 0: valid; 1: invalid, with the reason; 2: not a certificate; 3: not checked in time.""",
    ),
    (
        symmetries,
        """Examples:
    segre symmetries lightning/d=4,4,4/a=2/t=3
    segre symmetries gpt2""",
    ),
)
