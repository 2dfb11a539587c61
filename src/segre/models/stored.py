"""Where do the tensors of a spec lie in files? Tables of names, by part of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from segre.transformer.spec import Transformer

if TYPE_CHECKING:
    from segre.models.config import Config


@dataclass(frozen=True)
class Stored:
    """A tensor of a file: which tensors of a spec it holds, and how.

    Several tensors lie one after the other, each as rows. A tensor of the spec is
    `times` * the stored numbers + `plus`.
    """

    names: tuple[str, ...]
    columns: bool = False  # transposed: inputs (or tokens) are rows
    by_head: bool = False  # several: all of the first head, then all of the second
    member: int | None = None  # holds one member of the first axis, for example one expert
    stacked: bool = False  # the first axis, for example of experts, is one of the file's too
    alternate: bool = False  # several: the first row of each, then the second of each
    times: float = 1.0
    plus: float = 0.0
    lies: tuple[int, ...] = ()  # its shape in files, if it is no matrix and no vector there
    shape: tuple[int, ...] = ()  # of a constant that is no weight of the spec


Names = dict[str, Stored]  # by name of the tensor in the files
Layout = Callable[[Transformer, str, "Config"], Names]  # of a part: embed, head, or a layer


def not_stacked(_spec: Transformer, _part: str, _config: Config) -> Names:
    """No other names."""
    return {}


def parts(embed: Names, head: Names, at: str, layer: Names) -> Layout:
    """Where tensors lie if no choice changes it; `at` begins the names of a layer, from 0: {}."""

    def tensors(_spec: Transformer, part: str, _config: Config) -> Names:
        if part in ("embed", "head"):
            return embed if part == "embed" else head
        start = at.format(int(part) - 1)
        return {f"{start}{file}": how for file, how in layer.items()}

    return tensors


def linear(file: str, *names: str, columns: bool = False, by_head: bool = False) -> Names:
    """A linear map, or several joined, and their biases."""
    maps, biases = (tuple(f"{kind}_{name}" for name in names) for kind in "Wb")
    return {
        f"{file}.weight": Stored(maps, columns, by_head),
        f"{file}.bias": Stored(biases, by_head=by_head),
    }


def norm(file: str, name: str, plus: float = 0.0) -> Names:
    """A norm's gain and bias; `plus` is what the model adds to a stored gain."""
    gain = Stored((f"{name}.gain",), plus=plus)
    return {f"{file}.weight": gain, f"{file}.bias": Stored((f"{name}.bias",))}


def table(file: str, name: str) -> Names:
    """A table of embeddings: a token is a row."""
    return {f"{file}.weight": Stored((name,), columns=True)}
