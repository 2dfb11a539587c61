"""Every option of every command, declared once, by the name of its parameter.

A command is a function with plain types: `seed: int = 0`. How `seed` is spelled, what it stands for
and what its help says is here, and is the same for all commands that have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from segre.cli.arguments import ARGUMENTS, Argument
from segre.cli.completion import Complete, architecture, names, one_of, questions, variants

METHODS = ("auto", "dense", "linear", "band")
METRICS = ("generic", "gaussian", "identity")
HEADS = ("logits", "softmax", "hidden")
OUTPUT = "--output -o"


@dataclass(frozen=True)
class Option:
    """What is given by its name, `--name` if it is not `spelled` otherwise."""

    metavar: str  # nothing for a flag
    help: str
    spelled: str = ""
    complete: Complete | None = None
    min: float | None = None
    max: float | None = None

    def declared(self, name: str) -> Any:
        """As the argument reader has it."""
        spelled = self.spelled.split() or [f"--{name.replace('_', '-')}"]
        return typer.Option(
            *spelled,
            metavar=self.metavar or None,
            help=self.help,
            min=self.min,
            max=self.max,
            autocompletion=self.complete,
        )


WRITTEN = {
    "report_page": Option(
        "FILE.html", "Report file (default: report.html; none with --json unless given).", OUTPUT
    ),
    "page": Option("FILE.html", "Also write an HTML page.", OUTPUT),
    "static_page": Option(
        "FILE.html", "Write the static page instead, which needs no server.", OUTPUT
    ),
    "plot": Option("FILE", "Also draw a plot: .png, .svg or .pdf."),
    "drawing": Option("FILE", "File to draw: .png, .svg, .pdf or .html.", OUTPUT),
    "picture": Option("FILE", "File for the plot: .png, .svg or .pdf.", OUTPUT),
    "certificate": Option("FILE", "File to write: .json.", OUTPUT),
    "array": Option("FILE", "File to write: .npy or .safetensors.", OUTPUT),
    "table": Option("FILE", "File to write: .csv or .parquet.", OUTPUT),
    "new_store": Option("STORE", "The store: a new file, or one to continue.", OUTPUT),
    "stores": Option("FOLDER", "Directory for the stores.", OUTPUT),
    "results": Option(
        "FOLDER", "With --all: directory for runs, results and the page index.html.", OUTPUT
    ),
    "folder": Option(
        "OUT",
        "Directory to write; it must be new or empty, and nothing is left there if writing fails.",
        OUTPUT,
    ),
    "new_weights": Option(
        "OUT",
        "Directory to write; it must be new or empty, and nothing is left there if writing fails. "
        "Of a small network: a .json or .npz file.",
        OUTPUT,
    ),
    "witness": Option(
        "FILE", "Write the group element that maps the second checkpoint to the first."
    ),
    "dense": Option("FILE.npy", "Write the whole operator to this file, an (n d) x (n d) matrix."),
}

SHARED = {
    "seed": Option("N", "Random seed, named in the results.", min=0),
    "memory": Option("SIZE", "Memory limit; if more is needed, segre says how much and stops."),
    "task_memory": Option(
        "SIZE",
        "Memory limit for one architecture; those that need more are not started.",
        "--memory",
    ),
    "workers": Option("N", "Processes on this machine (default: one per core).", min=1),
    "limit": Option(
        "N",
        "Stop each sweep after this many architectures; the same command continues later.",
        min=0,
    ),
    "certificates": Option("FOLDER", "Keep a certificate of every row, as DIGEST.json."),
    "convert": Option(
        "", "SPEC is a certificate of an earlier version: write it in the present version."
    ),
    "defaults": Option(
        "",
        "Fill in values that a config leaves out with the defaults of the library's config class.",
    ),
    "head": Option(
        "HEAD",
        "Where a language model ends: logits, softmax or hidden (default: as in the spec).",
        complete=one_of(lambda: HEADS),
    ),
    "tokens": Option(
        "N,...",
        "Sequence lengths at which to count costs, such as 4k,32k or 1M; k is 1024.",
        "--t",
    ),
    "a": Option("N", "Head rank, if nothing else says it.", min=1),
    "text": Option(
        "FILE",
        "Take inputs from a text file, with the model's tokenizer, instead of random tokens.",
    ),
    "inputs": Option("N", "Number of inputs.", min=1),
    "length": Option("N", "Largest number of tokens in an input.", min=2),
    "by": Option("WAY", "How to match heads and units: by weights, or by activations on tokens."),
    "rounds": Option("N", "How many times the basis of the stream is recomputed."),
    "untie": Option(
        "", "Untie the unembedding of tied models, so that their residual stream can be rotated."
    ),
    "report": Option("", "List the changes, and compare outputs on random tokens."),
    "counting": Option(
        "X", "Time limit for counting; past it only the formula answers.", "--seconds", min=0
    ),
    "first_seed": Option("N", "First random seed; results name all seeds.", "--seed", min=0),
    "seeds": Option("N", "Number of seeds; the spread over them is shown.", min=1, max=100),
    "fresh": Option("", "Start over instead of continuing a run."),
}

OWN = {
    # dim, certify, run
    "method": Option(
        "METHOD",
        "auto (proved bounds: computed, or by a theorem if the network is large; where they do not "
        "meet, the rank at random points, which is certain or likely, not proved), theorem (only "
        "by a theorem), exact (only by computation), random (exact, and then random points at any "
        "size), balls (lower bound in certified real arithmetic), closed-form (upper bound by the "
        "formula for stacks), count (upper bound by counting symmetries of transformers) or "
        "estimate (floating-point rank, which proves nothing).",
        complete=names("segre.geometry.dimension:Method"),
    ),
    "proof_by": Option(
        "METHOD",
        "auto (a computation, or a theorem if the network is too large for one), exact (a "
        "computation) or theorem.",
        "--method",
        one_of(lambda: ("auto", "exact", "theorem")),
    ),
    "run_by": Option(
        "METHOD",
        "auto (the method expected to be fastest), dense (the attention pattern, some rows at a "
        "time), linear (features and a running state) or band (only keys within the window).",
        "--method",
        one_of(lambda: METHODS),
    ),
    "several": Option("", "Compare several transformers, one line each.", "--compare"),
    # verify, explore
    "seconds": Option(
        "X", "Time limit; past it the answer is inconclusive, with exit code 3.", min=0
    ),
    "patience": Option("X", "Time limit for one answer.", "--seconds", min=1),
    "preset": Option(
        "NAME", "The preset to compare with (empty: none).", "--against", architecture
    ),
    "port": Option("N", "Port to listen on; 0 chooses a free one.", min=0, max=65535),
    "browser": Option("", "Open the page in the default browser.", "--browser/--no-browser"),
    # analyze, same
    "only": Option(
        "PARTS",
        "Only these parts, separated by commas: findings, what, dimension, redundancy, proof, "
        "depth, heads, paths, weights.",
        complete=names("segre.analysis.run:QUESTIONS", several=True),
    ),
    "against": Option(
        "TARGET",
        "A second model or design, shown side by side in the same report.",
        complete=architecture,
    ),
    "tolerance": Option(
        "X", "Of small networks: relative tolerance for floats; fractions are exact.", min=0
    ),
    # model list, hash, merge, barrier
    "match": Option("TEXT", "List only names that contain this text.", "--filter"),
    "supports": Option(
        "QUESTION",
        "List only models that support this: counted, small-proof, files, normal-form, collapse or "
        "paths.",
        complete=one_of(questions),
    ),
    "imports": Option("", "Also import every package, each in a separate process (slower)."),
    "exact": Option("", "Hash only the values; works for all families."),
    "known": Option(
        "FILE", "Compare with another checkpoint: a file written by `hash --json`.", "--compare"
    ),
    "weight": Option(
        "W",
        "Weight of the second checkpoint (default: 0.5), or factor of the task vector "
        "(default: 1).",
    ),
    "task_vector": Option(
        "BASE", "The common base model: the change from it to the second is added to the first."
    ),
    "losses": Option("FILE", "Text file on which losses are measured.", "--text"),
    "points": Option("N", "Number of points on each line."),
    # model diagnose, trace, collapse, paths
    "control": Option("", "Also measure a copy with random weights, for comparison."),
    "settings": Option(
        "DEPTH:TOKEN:CHANNEL=VALUE",
        "Set one number of the stream to a value or to the median, and report the effect.",
        "--set",
    ),
    "ablate": Option(
        "PART", "Ablate a head (LAYER.HEAD) or an MLP (mlp:LAYER), and report the effect."
    ),
    "logit": Option(
        "POSITION[:TOKEN]",
        "The output: a position (0 is the first, -1 the last), optionally with the id of the token "
        "whose logit to explain (default: the likeliest).",
        "--target",
    ),
    "variants": Option(
        "VARIANTS",
        "all (8 variants), paper (4, norms kept), what-if (attention changed), or names such as "
        "full, attention and full:window=8; separate several with commas.",
        complete=variants,
    ),
    "ranks": Option("", "Also measure ranks and spectra (slower)."),
    "certify": Option("", "For specs: prove the residuals of the first input in ball arithmetic."),
    "threshold": Option("X", "Residual below which tokens count as collapsed.", min=0),
    "fuse": Option("HOW", "Also measure the streams of all layers fused by max, mean or concat."),
    "skip": Option(
        "", "With or without skip connections (default: as in the model).", "--skip/--no-skip"
    ),
    "mlp": Option("", "Keep the MLPs as fixed linear maps.", "--mlp/--no-mlp"),
    "norms": Option("", "Keep the norms as fixed linear maps.", "--norm/--no-norm"),
    "sample": Option("N", "Also sample this many single paths.", min=0),
    "of_length": Option("N", "Length of the sampled paths (default: 1).", min=0),
    "shares": Option("", "Only count the paths; needs no weights."),
    # model run, recover
    "stack_weights": Option(
        "FILE",
        "Weights of the stack: .npz or .json (docs/geometry.md), or .safetensors.",
        "--weights -w",
    ),
    "given": Option("FILE", "Input, one token per row: .npy or .safetensors.", "--input -i"),
    "block": Option("N", "Tokens per block (default: chosen by size)."),
    "recovered": Option(
        "SPEC", "The architecture, for example lightning/d=8,8/a=3/t=4, or just its kind.", "--spec"
    ),
    "starts": Option("N", "Number of random starts of a fit.", min=1),
    # variety
    "metric": Option(
        "METRIC",
        "Squared loss: generic (a generic quadratic form), gaussian (expected loss on standard "
        "normal inputs) or identity (the Frobenius norm of symmetric tensors). Default: generic; "
        "with --target, gaussian.",
        complete=one_of(lambda: METRICS),
    ),
    "goal": Option(
        "T",
        "For poly/n-r-1/degree=2: list all critical points for this target, given as eigenvalues "
        "such as 3,2,1,-1.5 or as a .json or .npy file with a symmetric matrix.",
        "--target",
    ),
    "descent": Option("N", "With --target: run gradient descent from N random starts.", min=0),
    "grid": Option("KxL", "Rows and columns of the grid, for example 2x3."),
    "s": Option("N", "Rank below s in every grid column."),
    "t": Option("N", "Rank below t in every grid row."),
    "d": Option("N", "Length of the vector at each place of the grid."),
    "matrix": Option(
        "FILE",
        "Say which components contain this d x KL matrix (.csv or .json, exact). Its columns are "
        "the places (1, 1), (1, 2), ..., (K, L).",
    ),
    "check": Option(
        "",
        "Also compute the tangent space of the variety mod p at a random point of each component.",
    ),
    "point": Option(
        "FILE",
        "With discriminant: weights to mark (a file as for `segre variety point`); repeatable.",
    ),
    "fiber": Option("SPEC", "With fiber: the architecture, with a >= 2.", "--spec"),
    # sweep
    "dask": Option("ADDRESS", "Address of a Dask scheduler, such as tcp://host:8786."),
    "timeout": Option(
        "SECONDS", "Time limit for one architecture; slower ones are retried at the end."
    ),
    "rows": Option("N", "Number of rows to compute again.", "--sample", min=1),
    "every": Option("", "Compute all rows again.", "--all"),
    "x": Option("X", "Field on the horizontal axis (default: chosen by segre)."),
    "y": Option("Y", "Field on the vertical axis (default: chosen by segre)."),
    "fields": Option("F,G,...", "Variables of the formula (default: all fields that vary)."),
    "where": Option("EXPRESSION", "Use only rows that satisfy this condition."),
    "degree": Option("N", "Largest degree of the polynomial.", min=0, max=6),
    "rational": Option("", "Allow fractional coefficients.", "--rational/--no-rational"),
    "in_balls": Option(
        "",
        "Also accept ranks found in ball arithmetic as dimensions, as is done for exact ranks "
        "mod p.",
        "--ranks/--no-ranks",
    ),
    "trials": Option(
        "N", "Number of new architectures on which each formula is tested.", "--fresh", min=1
    ),
    # reproduce
    "all_": Option("", "Run every experiment, and write one page with all results.", "--all"),
    "chosen": Option(
        "NAME",
        "With --all: only this experiment; repeatable.",
        "--only",
        names("segre.reproduce.registry:MODULES"),
    ),
    "full": Option("", "With --all: do the longer runs of experiments that have one."),
}
DECLARED: dict[str, Argument | Option] = {
    **ARGUMENTS,
    **WRITTEN,
    **SHARED,
    **OWN,
    "quiet": Option("", "Do not show progress.", "--quiet -q"),
}
