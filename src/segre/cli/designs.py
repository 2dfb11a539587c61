"""Commands about a design: dim, explain, compare, certify, verify."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, cast

from segre.cli.given import meant, memory_bytes, output_of, token_counts
from segre.cli.output import Out, TableOut
from segre.cli.tree import app
from segre.errors import SegreError
from segre.files import extension, shown

if TYPE_CHECKING:
    from segre.certificate import By


@app.answers(
    """segre dim softmax/d=10,10,10/a=2,2/t=3
    segre dim lightning/d=4,4,4/a=2/t=3 --method closed-form
    segre dim llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/t=3
    segre dim llama-3-8b
    segre dim lightning/d=2,4/a=2/heads=3/dv=1/t=2 --method random
    segre dim softmax/d=4096,4096,4096/a=128/t=2048 --method theorem
    segre dim path/to/config.json --head logits --json
    segre dim --compare gpt2 llama-3-8b qwen2-7b --plot redundant.png
    segre dim --compare - --csv < names.txt"""
)
def dim(
    specs: list[str],
    method: str = "auto",
    several: bool = False,
    plot: Path | None = None,
    head: str | None = None,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: TableOut = TableOut(),
) -> None:
    """The functional dimension of an architecture, and how it is known.

    It is the generic local dimension over the reals, at exactly this t, with all V ids as inputs;
    it says nothing about trained weights, discrete symmetries or global fibers.
    """
    from segre.geometry.compare import compare as side_by_side
    from segre.geometry.dimension import dimension
    from segre.models.lists import listed

    if plot is not None and not several:
        raise SegreError("--plot draws several architectures side by side; add --compare")
    if any("=" in spec and "/" not in spec for spec in specs[1:]):
        raise SegreError(
            "a spec is one word; write slashes instead of blanks, as in softmax/d=4,4/a=2/t=3"
        )
    given = [meant(spec, defaults) for spec in listed(specs)]
    asked = output_of(head)
    if several:
        out.answer(side_by_side, *given, output=asked, plot=plot, waiting="comparing")
        return
    if len(given) > 1:
        raise SegreError("several architectures were given; add --compare to see them side by side")
    out.answer(
        dimension,
        *given,
        method=method,
        seed=seed,
        output=asked,
        symmetries=True,
        memory=memory,
    )


@app.answers("""segre explain llama-3-8b
    segre explain lightning/d=4,4,4/a=2/t=3
    segre explain qwen3/d=8/heads=4/kv=2/head=2/ff=16/vocab=40/t=3""")
def explain(
    spec: str,
    head: str | None = None,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: Out = Out(),
) -> None:
    """Explain the symmetries: what removes each, and what training conserves."""
    from segre.geometry.explain import explain as explanation

    asked = output_of(head)
    out.answer(explanation, meant(spec, defaults), seed, output=asked, memory=memory)


@app.answers("""segre compare llama-3-8b llama-3-8b/kv=32 llama-3-8b/tied=true
    segre compare softmax/d=8,8/a=4/t=3 double/d=8,8/a=4/t=3 --t 4k,1M
    segre compare gpt2 llama-3-8b -o designs.html --plot designs.png
    segre compare - --csv < specs.txt""")
def compare(
    specs: list[str],
    tokens: str = "4k,32k",
    page: Path | None = None,
    plot: Path | None = None,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: TableOut = TableOut(),
) -> None:
    """Put designs side by side: dimension, redundancy, collapse, guarantees, cost."""
    from segre.analysis.comparison import compare as side_by_side
    from segre.models.lists import listed

    out.answer(
        side_by_side,
        *(meant(spec, defaults) for spec in listed(specs)),
        t=token_counts(tokens),
        seed=seed,
        memory=memory,
        plot=plot,
        page=page,
        instead=lambda found: {"specs": specs if defaults else found.names},
    )


@app.answers("""segre certify softmax/d=10,10,10/a=2,2/t=3 -o cert.json
    segre certify poly/3-5-2/degree=3 -o poly.json
    segre certify llama-3-8b -o llama.json
    segre certify --convert old.json -o cert.json""")
def certify(
    spec: str,
    certificate: Path,
    proof_by: str = "auto",
    convert: bool = False,
    defaults: bool = False,
    seed: int = 0,
    memory: str = "8G",
    out: Out = Out(),
) -> None:
    """Write a proof of the dimension that anyone can check."""
    from segre.certificate import certify as make_certificate
    from segre.certificate import write_certificate
    from segre.conversion import convert as converted
    from segre.result import claim_in_words

    extension(certificate, (".json",))
    with out.progress() as progress:
        if convert:
            document = converted(spec, progress)
        else:
            document = make_certificate(
                meant(spec, defaults),
                seed=seed,
                method=cast("By", proof_by),
                memory=memory_bytes(memory),
                progress=progress,
            )
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
    """segre verify cert.json
    segre verify - --seconds 60 < cert.json""",
    note="Exit code 0: valid; 1: invalid, with the reason; 2: not a certificate; 3: not checked in "
    "time.",
)
def verify(proof: Path, seconds: float = 3600, out: Out = Out()) -> None:
    """Check a proof with code that shares no arithmetic with the prover."""
    from segre.kernel import verify as check

    out.answer(
        check,
        proof,
        seconds=seconds,
        data={"file": shown(proof)},
        code=lambda verdict: 0 if verdict.valid else 1,
    )
