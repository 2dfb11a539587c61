"""Where do the tensors of a spec lie in files? Tables of names, by part of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from segre.transformer.spec import Transformer

if TYPE_CHECKING:
    from segre.models.config import Config

MAPS = ("gate", "up", "down")  # of MLPs and of experts


@dataclass(frozen=True)
class Stored:
    """A tensor of a file: which tensors of a spec it holds, and how.

    Several tensors lie one after the other, each as rows. A tensor of the spec is
    `times` * the stored numbers + `plus`.
    """

    names: tuple[str, ...]
    columns: bool = False  # transposed: inputs (or tokens) are rows
    by_head: bool = False  # several: all of the first head, then all of the second
    each: bool = False  # there is one for each expert, with its number in the place of {}
    member: int | None = None  # holds one member of the first axis, for example one expert
    stacked: bool = False  # the first axis, for example of experts, is one of the file's too
    alternate: bool = False  # several: the first row of each, then the second of each
    instead: bool = False  # only some files have it, in place of others that hold the same
    times: float = 1.0
    plus: float = 0.0
    lies: tuple[int, ...] = ()  # its shape in files, if it is no matrix and no vector there
    shape: tuple[int, ...] = ()  # of a constant that is no weight of the spec

    @property
    def routed(self) -> bool:
        """Whether it holds experts."""
        return self.each or self.stacked or self.member is not None


Names = dict[str, Stored]  # by name of the tensor in the files
Layout = Callable[[Transformer, str, "Config"], Names]  # of a part: embed, head, or a layer


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


def maps(at: str, **files: str) -> Names:
    """Linear maps of a module and their biases: under the name in a spec, where each one lies."""
    each = (linear(f"{at}{file}", name) for name, file in files.items())
    return {file: how for one in each for file, how in one.items()}


def norm(file: str, *names: str, plus: float = 0.0) -> Names:
    """A norm's gain and bias, by the one of its names that a spec has.

    `plus` is what the model adds to a stored gain.
    """
    gain, bias = (tuple(f"{name}.{what}" for name in names) for what in ("gain", "bias"))
    return {f"{file}.weight": Stored(gain, plus=plus), f"{file}.bias": Stored(bias)}


def table(file: str, name: str) -> Names:
    """A table of embeddings: a token is a row."""
    return {f"{file}.weight": Stored((name,), columns=True)}


def experts(at: str, gate: str, up: str, down: str, times: float = 1.0) -> Names:
    """One tensor for each map of each expert; the model multiplies what they write by `times`."""
    return {
        f"{at}.{{}}.{gate}.weight": Stored(("W_gate",), each=True),
        f"{at}.{{}}.{up}.weight": Stored(("W_up",), each=True),
        f"{at}.{{}}.{down}.weight": Stored(("W_down",), each=True, times=times),
    }


def stacked_experts(at: str, times: float = 1.0) -> Names:
    """The same, if all experts of a layer are together, as in the library since version 5."""
    both = Stored(("W_gate", "W_up"), by_head=True, stacked=True, instead=True)
    down = Stored(("W_down",), stacked=True, times=times, instead=True)
    return {f"{at}.gate_up_proj": both, f"{at}.down_proj": down}


def one_by_one(names: Names, count: int) -> Names:
    """The names with those of `count` experts in the place of those that have {}."""
    each = {file: replace(how, each=False) for file, how in names.items() if how.each}
    out: Names = {}
    for file, how in names.items():
        if not how.each:
            out[file] = how
        elif file == next(iter(each)):
            out |= {
                f.format(i): replace(x, member=i) for i in range(count) for f, x in each.items()
            }
    return out
