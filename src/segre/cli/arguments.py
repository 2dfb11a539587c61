"""Every argument of every command, declared once, by the name of its parameter."""

from __future__ import annotations

from pathlib import Path

from segre.cli.completion import architecture, names, one_of, sweeps
from segre.cli.given import argument

SLICES = ("cone", "discriminant", "fiber")

_SPEC = (
    "An inline spec such as softmax/d=4,4,4/a=2/t=3 or llama/d=4/heads=2/kv=1/head=2/ff=5/t=3, "
    "a .toml or .json file, a config.json or a directory with one, a name such as llama-3-8b, or "
    "the id of a model in the local Hugging Face cache."
)
_CHECKPOINT = (
    "a model directory (config.json and safetensors), a .safetensors file beside its config.json, "
    "or the id of a model in the local Hugging Face cache"
)
_SMALL = f"{_CHECKPOINT}; or a small network, a .json or .npz file (docs/geometry.md)."
_AGAIN = "The second, in any of these forms."

ARGUMENTS = {
    "spec": argument("SPEC", _SPEC, complete=architecture),
    "specs": argument("SPEC", _SPEC, complete=architecture, several=True),
    "polynomial": argument(
        "SPEC",
        "A polynomial network such as poly/4-2-1/degree=2 or cnn/k=3,2/degree=2, or a .toml or "
        ".json file.",
        complete=architecture,
    ),
    "stack": argument(
        "SPEC",
        "A stack of attention layers such as softmax/d=8,8/a=4/t=3, or a .toml or .json file.",
        complete=architecture,
    ),
    "start": argument(
        "SPEC",
        "The design to start with: a name such as llama-3-8b, an inline spec, a config.json or a "
        "directory with one.",
        complete=architecture,
        usual="llama-3-8b",
    ),
    "target": argument(
        "TARGET",
        "A model directory, a config.json, a name such as llama-3-8b, an inline spec such as "
        "llama/d=8/heads=2/ff=16/t=3, or a .toml or .json file.",
        complete=architecture,
    ),
    "model": argument(
        "MODEL",
        "A model directory; or, with random weights, a config.json, a name such as "
        "bert-base-uncased or a spec such as llama/d=8/heads=2/ff=16/t=3.",
        complete=architecture,
    ),
    "checkpoint": argument("DIR", f"The checkpoint: {_CHECKPOINT}.", Path),
    "checkpoints": argument("DIR", f"Checkpoints: each {_CHECKPOINT}.", Path, several=True),
    "one": argument("A", f"The first checkpoint: {_CHECKPOINT}.", Path),
    "two": argument("B", "The second checkpoint, in any of these forms.", Path),
    "others": argument("B", "The checkpoints at the other ends of the lines.", Path, several=True),
    "weights": argument("MODEL", f"The checkpoint: {_SMALL}", Path),
    "first": argument("A", f"The first checkpoint: {_SMALL}", Path),
    "second": argument("B", _AGAIN, Path),
    "shrunk": argument("DIR", "A directory written by `segre model shrink`.", Path),
    "gguf": argument("FILE.gguf", "A GGUF file.", Path),
    "element": argument("WITNESS", "A file written by `segre same --witness`.", Path),
    "proof": argument("FILE", "A certificate file; - reads standard input.", Path),
    "data": argument("FILE", "Inputs X and outputs Y: .npz or .json (fractions are exact).", Path),
    "trained": argument(
        "FILE",
        "Data, weights and weight decay: X, Y, W_QK, W_OV and beta, as .json, .npz or "
        ".safetensors (docs/experiments-related.md); - reads standard input.",
        Path,
    ),
    "layer": argument(
        "FILE",
        "A .json or .npz file with V and A, or V, K and Q, of a lightning layer, or with the "
        "weights of a polynomial network. Fractions written as strings are exact.",
        Path,
    ),
    "slice_": argument(
        "KIND",
        "cone (a surface in the space of functions of one layer), discriminant (products of two "
        "linear forms and their boundary) or fiber (weights that all have the same function).",
        complete=one_of(lambda: SLICES),
    ),
    "family": argument(
        "NAME",
        "Show everything about one family, such as llama, or one preset, such as llama-3-8b.",
        complete=names("segre.models:FAMILIES", "segre.models:PRESETS"),
        usual=None,
    ),
    "demo_folder": argument(
        "DIRECTORY",
        "Directory to write the models to; it must be new or empty.",
        Path,
        usual=Path("segre-demo"),
    ),
    "plan": argument(
        "SWEEP", "A sweep file (.toml), or a name from `segre sweep list`.", complete=sweeps
    ),
    "store": argument("STORE", "A store written by `segre sweep run`.", Path),
}
