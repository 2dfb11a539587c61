"""Every argument of every command, declared once, by the name of its parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import typer

from segre.cli.completion import Complete, architecture, names, one_of, sweeps

SLICES = ("cone", "discriminant", "fiber")


@dataclass(frozen=True)
class Argument:
    """What is given by its place."""

    metavar: str
    help: str
    complete: Complete | None = None

    def declared(self, _name: str) -> Any:
        """As the argument reader has it."""
        return typer.Argument(metavar=self.metavar, help=self.help, autocompletion=self.complete)


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
    "spec": Argument("SPEC", _SPEC, architecture),
    "specs": Argument("SPEC", _SPEC, architecture),
    "polynomial": Argument(
        "SPEC",
        "A polynomial network such as poly/4-2-1/degree=2 or cnn/k=3,2/degree=2, or a .toml or "
        ".json file.",
        architecture,
    ),
    "stack": Argument(
        "SPEC",
        "A stack of attention layers such as softmax/d=8,8/a=4/t=3, or a .toml or .json file.",
        architecture,
    ),
    "start": Argument(
        "SPEC",
        "The design to start with: a name such as llama-3-8b, an inline spec, a config.json or a "
        "directory with one.",
        architecture,
    ),
    "target": Argument(
        "TARGET",
        "A model directory, a config.json, a name such as llama-3-8b, an inline spec such as "
        "llama/d=8/heads=2/ff=16/t=3, or a .toml or .json file.",
        architecture,
    ),
    "model": Argument(
        "MODEL",
        "A model directory; or, with random weights, a config.json, a name such as "
        "bert-base-uncased or a spec such as llama/d=8/heads=2/ff=16/t=3.",
        architecture,
    ),
    "checkpoint": Argument("DIR", f"The checkpoint: {_CHECKPOINT}."),
    "checkpoints": Argument("DIR", f"Checkpoints: each {_CHECKPOINT}."),
    "one": Argument("A", f"The first checkpoint: {_CHECKPOINT}."),
    "two": Argument("B", "The second checkpoint, in any of these forms."),
    "others": Argument("B", "The checkpoints at the other ends of the lines."),
    "weights": Argument("MODEL", f"The checkpoint: {_SMALL}"),
    "first": Argument("A", f"The first checkpoint: {_SMALL}"),
    "second": Argument("B", _AGAIN),
    "shrunk": Argument("DIR", "A directory written by `segre model shrink`."),
    "gguf": Argument("FILE.gguf", "A GGUF file."),
    "element": Argument("WITNESS", "A file written by `segre same --witness`."),
    "proof": Argument("FILE", "A certificate file; - reads standard input."),
    "data": Argument("FILE", "Inputs X and outputs Y: .npz or .json (fractions are exact)."),
    "trained": Argument(
        "FILE",
        "Data, weights and weight decay: X, Y, W_QK, W_OV and beta, as .json, .npz or "
        ".safetensors (docs/experiments-related.md); - reads standard input.",
    ),
    "layer": Argument(
        "FILE",
        "A .json or .npz file with V and A, or V, K and Q, of a lightning layer, or with the "
        "weights of a polynomial network. Fractions written as strings are exact.",
    ),
    "slice_": Argument(
        "KIND",
        "cone (a surface in the space of functions of one layer), discriminant (products of two "
        "linear forms and their boundary) or fiber (weights that all have the same function).",
        one_of(lambda: SLICES),
    ),
    "family": Argument(
        "NAME",
        "Show everything about one family, such as llama, or one preset, such as llama-3-8b.",
        names("segre.models:FAMILIES", "segre.models:PRESETS"),
    ),
    "demo_folder": Argument(
        "DIRECTORY", "Directory to write the models to; it must be new or empty."
    ),
    "plan": Argument("SWEEP", "A sweep file (.toml), or a name from `segre sweep list`.", sweeps),
    "store": Argument("STORE", "A store written by `segre sweep run`."),
}
