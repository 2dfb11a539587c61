"""A report with every kind of block in it, hostile names included; nothing in it is computed."""

import math
from dataclasses import replace

from segre.report.blocks import (
    Download,
    Facts,
    Figure,
    Fold,
    Items,
    Page,
    Row,
    Say,
    Section,
    Table,
    Tile,
)

HOSTILE = "</script><img src=x onerror=\"document.title='taken'\"> & <b>`bold`</b> \u2028\"'"
SPEC = "llama/d=8/layers=2/heads=4/kv=2/head=2/ff=16/norm=rms/position=rotary/tied=no/t=3"
DOCUMENT = {
    "title": HOSTILE,
    "weights": 8030261248123456789012,
    "values": [0.1, None, True, {"é": "\u2029<!--<script>"}],
}


def sorting() -> Table:
    return Table(
        "Sorting",
        ("part", "weights", "share", "exact"),
        (
            ("layer 10", 9007199254740993, 0.25, True),
            ("layer 9", None, float("nan"), None),
            ("Layer 2", 9007199254740992, 1.5e-9, False),
            (HOSTILE, 12, -3.0, True),
            ("layer 1", 12, float("inf"), True),
        ),
        numeric=(False, True, True, False),
        note="A note with `code` in it.",
    )


def tall() -> Table:
    columns = ("tensor", *(f"singular value {n}" for n in range(1, 17)))
    rows = tuple(
        (f"model.layers.{n}.self_attn.q_proj.weight", *((n + 1) * 0.7**k for k in range(16)))
        for n in range(32)
    )
    return Table("Tall", columns, rows)


def numbers(key: str, count: int = 3) -> Table:
    rows = tuple((f"row {n}", n * n, n / 7) for n in range(count))
    return Table(key, ("name", "square", "seventh"), rows)


def bars() -> Figure:
    parts = ("embedding", "attention", "MLP", "norms", "head")
    return Figure(
        "Bars",
        "The MLPs hold more weights than everything else together, by one and the same gauge.",
        (
            {"type": "bar", "name": "weights", "x": parts, "y": [64, 384, 768, 40, 64]},
            {
                "type": "bar",
                "name": "free choices",
                "x": parts,
                "y": [8, 64, 0, 40, 0],
                "marker": {"color": "@2"},
            },
        ),
        {"barmode": "group", "yaxis": {"title": {"text": "numbers"}}},
        numbers("bars", 5),
        note="A free choice changes the weights and not the function.",
    )


def lines() -> Figure:
    depth = list(range(1, 13))
    traces = tuple(
        {
            "type": "scatter",
            "mode": "lines+markers",
            "name": name,
            "x": depth,
            "y": [10 ** (-rate * n) for n in depth],
            "line": {"dash": dash},
        }
        for name, rate, dash in (
            ("as it is", 0.05, "solid"),
            ("without skips", 0.9, "solid"),
            ("without MLPs", 0.2, "solid"),
            ("the bound of the theorem", 0.6, "dash"),
            ("without norms", 0.12, "solid"),
            ("random weights of the same size", 0.4, "dot"),
        )
    )
    band = {
        "type": "scatter",
        "x": [*depth, *depth[::-1]],
        "y": [*(10 ** (-0.04 * n) for n in depth), *(10 ** (-0.07 * n) for n in depth[::-1])],
        "fill": "toself",
        "fillcolor": "@1/0.2",
        "line": {"width": 0, "color": "@1"},
        "showlegend": False,
        "hoverinfo": "skip",
    }
    return Figure(
        "Lines",
        "Without skips, tokens collapse.",
        (*traces, band),
        {
            "xaxis": {"title": {"text": "layer"}},
            "yaxis": {"type": "log", "title": {"text": "relative residual"}},
        },
        numbers("lines", 14),
    )


def heat(key: str, rows: int, columns: int) -> Figure:
    z = [[math.exp(-abs(i - j * rows / columns) / 3) for j in range(columns)] for i in range(rows)]
    z[1][2] = float("nan")
    return Figure(
        key,
        "Heads resemble their neighbours.",
        (
            {
                "type": "heatmap",
                "z": z,
                "x": [f"head {n}" for n in range(columns)],
                "y": [f"layer {n}" for n in range(rows)],
                "colorscale": "@sequential",
                "colorbar": {"title": {"text": "cosine"}},
            },
        ),
        {"yaxis": {"autorange": "reversed"}},
        numbers(key, rows),
        height=440,
    )


def hostile_plot() -> Figure:
    link = f'<a href="https://example.org">{HOSTILE}</a>'
    return Figure(
        HOSTILE,
        HOSTILE,
        (
            {"type": "bar", "name": link, "x": [link, "a < b"], "y": [1, float("inf")]},
            {"type": "bar", "name": HOSTILE, "x": [HOSTILE, "a < b"], "y": [2, 1]},
        ),
        {},
        numbers("hostile"),
        note=HOSTILE,
        height=260,
    )


def everything() -> Page:
    """Every kind of block, every status, and hostile text wherever text goes."""
    return Page(
        title=SPEC,
        subtitle="A Llama of 1,320 weights on 3 tokens: what its weights determine, "
        "and what they do not.",
        tiles=(
            Tile(
                "Dimension of the function space",
                "1,208",
                "proved by computation",
                "both bounds meet",
            ),
            Tile("Weights", "8,030,261,248", "exact", "of which 112 are redundant"),
            Tile("Rank left after 12 layers", "0.83", "measured", "of 1, float32"),
            Tile("Learning coefficient", "≈ 604", "estimated", "from 40 samples"),
        ),
        sections=sections(),
        document=DOCUMENT,
        command=f"segre report {SPEC} -o report.html --seed 0",
        made="segre 0.2.0, 16 November 2026, seed 0",
    )


def sections() -> tuple[Section, ...]:
    return (
        Section(
            key="dimension",
            title="How large is the space of functions?",
            status="proved by computation",
            lead="The functions this architecture can compute form a space of dimension 1,208: "
            "112 fewer than it has weights.",
            how="The Jacobian has rank 1,208 mod p at a random point (from below), and 112 "
            "symmetries are known (from above).",
            command=f"segre dim {SPEC}",
            seconds=1.234,
            blocks=(
                Facts(
                    (
                        ("weights", 1320, ""),
                        ("dimension", 1208, "proved: the bounds meet"),
                        ("smallest singular value", 1.23456e-7, "of the Jacobian in `float64`"),
                        ("certificate checked", True, "by the kernel"),
                        ("degree", None, "not computed for depth above 1"),
                        ("digest", "sha256:" + "0123456789abcdef" * 4, ""),
                    )
                ),
                bars(),
                Download("certificate.json", "The certificate", {"rank": 1208, "p": 8388593}),
                Download("../network spec.toml", "The network as TOML", 'family = "llama"\n'),
            ),
        ),
        Section(
            key="parts",
            title="Where are the weights?",
            status="exact",
            lead="Most are in the MLPs.",
            how="Counted by formulas.",
            command=f"segre explain {SPEC}",
            seconds=0.003,
            blocks=(sorting(), tall()),
        ),
        Section(
            key="collapse",
            title="Do tokens become alike with depth?",
            status="measured",
            lead="They do not, as long as there are skip connections: 0.83 of the distance is left "
            "after 12 layers.",
            how="One forward pass in float32 on 64 tokens.",
            command="segre model collapse gpt2 --layers 12 --input text.txt --seed 0",
            seconds=75.2,
            blocks=(lines(), Say("What a paragraph says."), Say("And another one, longer.")),
        ),
        Section(
            key="heads",
            title="Which heads are alike?",
            status="measured",
            lead="Neighbours are.",
            blocks=(heat("heat-square", 12, 12), heat("heat-tall", 30, 9)),
        ),
        Section(
            key="bound",
            title="How many linear regions?",
            status="bounded",
            lead="Between 96 and 4,096.",
            how="A theorem from above, an example from below.",
            blocks=(
                Row(
                    (
                        Facts((("from below", 96, "found"), ("from above", 4096, "theorem"))),
                        Items("Known", ("It is finite.", "It is not small.")),
                    )
                ),
                Fold("More regions", (heat("heat-folded", 6, 6),)),
            ),
        ),
        Section(
            key="estimate",
            title="What is the learning coefficient?",
            status="estimated",
            lead="About 604, from 40 samples.",
            blocks=(
                Table(
                    "All samples",
                    ("sample", "value"),
                    tuple((n, 600 + n / 3) for n in range(40)),
                    folded=True,
                ),
            ),
        ),
        Section(
            key=HOSTILE,
            title=HOSTILE,
            status="exact",
            lead=HOSTILE,
            how=HOSTILE,
            command=HOSTILE,
            blocks=(
                Facts(((HOSTILE, HOSTILE, HOSTILE),)),
                Say(HOSTILE),
                Table(HOSTILE, (HOSTILE,), ((HOSTILE,), (None,), ("=1+cmd()",)), note=HOSTILE),
                hostile_plot(),
                Download(HOSTILE, HOSTILE, HOSTILE),
            ),
        ),
        Section(
            key="weights",
            title="Are the weights singular?",
            status="not run",
            lead="",
            reason="There are no weights: an architecture was given, not a checkpoint.",
            command="segre model classify DIRECTORY",
        ),
    )


def plain() -> Page:
    """The same without plots."""
    page = everything()
    return replace(page, sections=tuple(map(without_plots, page.sections)))


def without_plots(section: Section) -> Section:
    kept = tuple(block for block in section.blocks if not isinstance(block, Figure | Fold))
    return replace(section, blocks=kept)
