"""Every option of every command, declared once, by the name of its parameter.

How `seed` is spelled, what it stands for, what its help says and what it is where it is not given
is here, and is the same for all commands that have it.
"""

from __future__ import annotations

from pathlib import Path

from segre.cli.arguments import ARGUMENTS
from segre.cli.completion import architecture, names, one_of, questions, variants
from segre.cli.given import (
    HEADS,
    REQUIRED,
    Parameter,
    file,
    flag,
    memory_bytes,
    number,
    output_of,
    size,
    token_counts,
)

METHODS = ("auto", "dense", "linear", "band")
METRICS = ("generic", "gaussian", "identity")
OUTPUT = "--output -o"
_NEW = "Directory to write; it must be new or empty, and nothing is left there if writing fails."

FILES = {
    "report_page": file(
        "FILE.html", "Report file (default: report.html; none with --json unless given).", OUTPUT
    ),
    "page": file("FILE.html", "Also write an HTML page.", OUTPUT),
    "static_page": file(
        "FILE.html", "Write the static page instead, which needs no server.", OUTPUT
    ),
    "plot": file("FILE", "Also draw a plot: .png, .svg or .pdf."),
    "drawing": file("FILE", "File to draw: .png, .svg, .pdf or .html.", OUTPUT, REQUIRED),
    "certificate": file("FILE", "File to write: .json.", OUTPUT, REQUIRED),
    "array": file("FILE", "File to write: .npy or .safetensors.", OUTPUT, REQUIRED),
    "table": file("FILE", "File to write: .csv or .parquet.", OUTPUT, REQUIRED),
    "new_store": file("STORE", "The store: a new file, or one to continue.", OUTPUT, REQUIRED),
    "stores": file("FOLDER", "Directory for the stores.", OUTPUT, Path("theorems")),
    "results": file(
        "FOLDER",
        "With --all: directory for runs, results and the page index.html; with --verify: the "
        "directory that is checked.",
        OUTPUT,
    ),
    "folder": file("OUT", _NEW, OUTPUT, REQUIRED),
    "new_weights": file("OUT", f"{_NEW} Of a small network: a .json or .npz file.", OUTPUT, ...),
    "witness": file(
        "FILE", "Write the group element that maps the second checkpoint to the first."
    ),
    "dense": file("FILE.npy", "Write the whole operator to this file, an (n d) x (n d) matrix."),
    "certificates": file("FOLDER", "Keep a certificate of every row, as DIGEST.json."),
    "text": file(
        "FILE",
        "Take inputs from a text file, with the model's tokenizer, instead of random tokens.",
    ),
    "losses": file("FILE", "Text file on which losses are measured.", "--text", REQUIRED),
    "known": file(
        "FILE", "Compare with another checkpoint: a file written by `hash --json`.", "--compare"
    ),
    "task_vector": file(
        "BASE", "The common base model: the change from it to the second is added to the first."
    ),
    "stack_weights": file(
        "FILE",
        "Weights of the stack: .npz or .json (docs/geometry.md), or .safetensors.",
        "--weights -w",
        REQUIRED,
    ),
    "given": file(
        "FILE", "Input, one token per row: .npy or .safetensors.", "--input -i", REQUIRED
    ),
    "matrix": file(
        "FILE",
        "Say which components contain this d x KL matrix (.csv or .json, exact). Its columns are "
        "the places (1, 1), (1, 2), ..., (K, L).",
    ),
    "point": Parameter(
        "FILE",
        "With discriminant: weights to mark (a file as for `segre variety point`); repeatable.",
        kind=Path,
        several=True,
    ),
}

FLAGS = {
    "quiet": flag("Do not show progress.", "--quiet -q"),
    "convert": flag(
        "SPEC is a certificate of an earlier version: write it in the present version."
    ),
    "defaults": flag(
        "Fill in values that a config leaves out with the defaults of the library's config class."
    ),
    "untie": flag(
        "Untie the unembedding of tied models, so that their residual stream can be rotated."
    ),
    "report": flag("List the changes, and compare outputs on random tokens."),
    "fresh": flag("Start over instead of continuing a run."),
    "several": flag("Compare several transformers, one line each.", "--compare"),
    "browser": flag("Open the page in the default browser.", "--browser/--no-browser", usual=True),
    "imports": flag("Also import every package, each in a separate process (slower)."),
    "exact": flag("Hash only the values; works for all families."),
    "control": flag("Also measure a copy with random weights, for comparison."),
    "ranks": flag("Also measure ranks and spectra (slower)."),
    "certify": flag("For specs: prove the residuals of the first input in ball arithmetic."),
    "skip": flag(
        "With or without skip connections (default: as in the model).", "--skip/--no-skip", None
    ),
    "mlp": flag("Keep the MLPs as fixed linear maps.", "--mlp/--no-mlp", usual=True),
    "norms": flag("Keep the norms as fixed linear maps.", "--norm/--no-norm", usual=True),
    "shares": flag("Only count the paths; needs no weights."),
    "check": flag(
        "Also compute the tangent space of the variety mod p at a random point of each component."
    ),
    "every": flag("Compute all rows again.", "--all"),
    "rational": flag("Allow fractional coefficients.", "--rational/--no-rational"),
    "in_balls": flag(
        "Also accept ranks found in ball arithmetic as dimensions, as is done for exact ranks "
        "mod p.",
        "--ranks/--no-ranks",
    ),
    "all_": flag("Run every experiment, and write one page with all results.", "--all"),
    "stored": flag(
        "Certify the dimensions in a folder of results and stores again, and check them.",
        "--verify",
    ),
    "full": flag("With --all: do the longer runs of experiments that have one."),
}

NUMBERS = {
    "seed": number("Random seed, named in the results.", usual=0, min=0),
    "workers": number("Processes on this machine (default: one per core).", min=1),
    "limit": number(
        "Stop each sweep after this many architectures; the same command continues later.", min=0
    ),
    "a": number("Head rank, if nothing else says it.", min=1),
    "inputs": number("Number of inputs.", usual=4, min=1),
    "length": number("Largest number of tokens in an input.", min=2),
    "rounds": number("How many times the basis of the stream is recomputed.", usual=1),
    "first_seed": number("First random seed; results name all seeds.", "--seed", usual=0, min=0),
    "seeds": number("Number of seeds; the spread over them is shown.", usual=3, min=1, max=100),
    "port": number("Port to listen on; 0 chooses a free one.", usual=0, min=0, max=65535),
    "points": number("Number of points on each line.", usual=11),
    "sample": number("Also sample this many single paths.", usual=0, min=0),
    "of_length": number("Length of the sampled paths (default: 1).", min=0),
    "block": number("Tokens per block (default: chosen by size)."),
    "starts": number("Number of random starts of a fit.", usual=20, min=1),
    "descent": number("With --target: run gradient descent from N random starts.", usual=0, min=0),
    "s": number("Rank below s in every grid column.", usual=REQUIRED),
    "t": number("Rank below t in every grid row.", usual=REQUIRED),
    "d": number("Length of the vector at each place of the grid.", usual=REQUIRED),
    "rows": number("Number of rows to compute again.", "--sample", usual=20, min=1),
    "degree": number("Largest degree of the polynomial.", usual=4, min=0, max=6),
    "trials": number(
        "Number of new architectures on which each formula is tested.", "--fresh", usual=20, min=1
    ),
}

SIZES = {  # numbers that need not be whole
    "counting": size(
        "X", "Time limit for counting; past it only the formula answers.", "--seconds", 20, min=0
    ),
    "seconds": size(
        "X", "Time limit; past it the answer is inconclusive, with exit code 3.", "", 3600, min=0
    ),
    "patience": size("X", "Time limit for one answer.", "--seconds", 60, min=1),
    "timeout": size(
        "SECONDS", "Time limit for one architecture; slower ones are retried at the end."
    ),
    "tolerance": size(
        "X",
        "Of small networks: relative tolerance for floats; fractions are exact.",
        "",
        1e-8,
        min=0,
    ),
    "weight": size(
        "W",
        "Weight of the second checkpoint (default: 0.5), or factor of the task vector "
        "(default: 1).",
    ),
    "threshold": size("X", "Residual below which tokens count as collapsed.", "", 1e-3, min=0),
}

WORDS = {
    "memory": Parameter(
        "SIZE",
        "Memory limit; if more is needed, segre says how much and stops.",
        usual="8G",
        read=memory_bytes,
    ),
    "task_memory": Parameter(
        "SIZE",
        "Memory limit for one architecture; those that need more are not started.",
        "--memory",
        usual="2G",
        read=memory_bytes,
    ),
    "head": Parameter(
        "HEAD",
        "Where a language model ends: logits, softmax or hidden (default: as in the spec).",
        complete=one_of(lambda: HEADS),
        read=output_of,
    ),
    "tokens": Parameter(
        "N,...",
        "Sequence lengths at which to count costs, such as 4k,32k or 1M; k is 1024.",
        "--t",
        read=token_counts,
    ),
    "by": Parameter(
        "WAY",
        "How to match heads and units: by weights, or by activations on tokens.",
        usual="weights",
    ),
    # dim, certify, run
    "method": Parameter(
        "METHOD",
        "auto (proved bounds: computed, or by a theorem if the network is large; where they do not "
        "meet, the rank at random points, which is certain or likely, not proved), theorem (only "
        "by a theorem), exact (only by computation), random (exact, and then random points at any "
        "size), balls (lower bound in certified real arithmetic), closed-form (upper bound by the "
        "formula for stacks), count (upper bound by counting symmetries of transformers) or "
        "estimate (floating-point rank, which proves nothing).",
        usual="auto",
        complete=names("segre.geometry.dimension:Method"),
    ),
    "proof_by": Parameter(
        "METHOD",
        "auto (a computation, or a theorem if the network is too large for one), exact (a "
        "computation) or theorem.",
        "--method",
        usual="auto",
        complete=one_of(lambda: ("auto", "exact", "theorem")),
    ),
    "run_by": Parameter(
        "METHOD",
        "auto (the method expected to be fastest), dense (the attention pattern, some rows at a "
        "time), linear (features and a running state) or band (only keys within the window).",
        "--method",
        usual="auto",
        complete=one_of(lambda: METHODS),
    ),
    # explore, analyze
    "preset": Parameter(
        "NAME",
        "The preset to compare with (empty: none).",
        "--against",
        usual="gpt2",
        complete=architecture,
    ),
    "only": Parameter(
        "PARTS",
        "Only these parts, separated by commas: findings, what, dimension, redundancy, proof, "
        "depth, heads, paths, weights.",
        complete=names("segre.analysis.run:QUESTIONS", several=True),
    ),
    "against": Parameter(
        "TARGET",
        "A second model or design, shown side by side in the same report.",
        complete=architecture,
    ),
    # model list
    "match": Parameter("TEXT", "List only names that contain this text.", "--filter", usual=""),
    "supports": Parameter(
        "QUESTION",
        "List only models that support this: counted, small-proof, files, normal-form, collapse or "
        "paths.",
        usual="",
        complete=questions,
    ),
    # model diagnose, trace, collapse, recover
    "settings": Parameter(
        "DEPTH:TOKEN:CHANNEL=VALUE",
        "Set one number of the stream to a value or to the median, and report the effect.",
        "--set",
        several=True,
    ),
    "ablate": Parameter(
        "PART",
        "Ablate a head (LAYER.HEAD) or an MLP (mlp:LAYER), and report the effect.",
        several=True,
    ),
    "logit": Parameter(
        "POSITION[:TOKEN]",
        "The output: a position (0 is the first, -1 the last), optionally with the id of the token "
        "whose logit to explain (default: the likeliest).",
        "--target",
        usual="-1",
    ),
    "variants": Parameter(
        "VARIANTS",
        "all (8 variants), paper (4, norms kept), what-if (attention changed), or names such as "
        "full, attention and full:window=8; separate several with commas.",
        usual="all",
        complete=variants,
    ),
    "fuse": Parameter(
        "HOW", "Also measure the streams of all layers fused by max, mean or concat."
    ),
    "recovered": Parameter(
        "SPEC",
        "The architecture, for example lightning/d=8,8/a=3/t=4, or just its kind.",
        "--spec",
        usual=REQUIRED,
    ),
    # variety
    "metric": Parameter(
        "METRIC",
        "Squared loss: generic (a generic quadratic form), gaussian (expected loss on standard "
        "normal inputs) or identity (the Frobenius norm of symmetric tensors). Default: generic; "
        "with --target, gaussian.",
        complete=one_of(lambda: METRICS),
    ),
    "goal": Parameter(
        "T",
        "For poly/n-r-1/degree=2: list all critical points for this target, given as eigenvalues "
        "such as 3,2,1,-1.5 or as a .json or .npy file with a symmetric matrix.",
        "--target",
    ),
    "grid": Parameter("KxL", "Rows and columns of the grid, for example 2x3.", usual=REQUIRED),
    "fiber": Parameter(
        "SPEC",
        "With fiber: the architecture, with a >= 2.",
        "--spec",
        usual="softmax/d=3,3/a=2/t=3",
    ),
    # sweep, reproduce
    "dask": Parameter("ADDRESS", "Address of a Dask scheduler, such as tcp://host:8786."),
    "x": Parameter("X", "Field on the horizontal axis (default: chosen by segre)."),
    "y": Parameter("Y", "Field on the vertical axis (default: chosen by segre)."),
    "fields": Parameter(
        "F,G,...", "Variables of the formula (default: all fields that vary).", usual=""
    ),
    "where": Parameter("EXPRESSION", "Use only rows that satisfy this condition."),
    "chosen": Parameter(
        "NAME",
        "With --all: only this experiment; repeatable.",
        "--only",
        several=True,
        complete=names("segre.reproduce.registry:MODULES"),
    ),
}
DECLARED: dict[str, Parameter] = {**ARGUMENTS, **FILES, **FLAGS, **NUMBERS, **SIZES, **WORDS}
