"""What segre knows of a family of models, as data.

A family is one module of this room: how its configs read as specs and specs write as configs, what
its inline specs need not say, its presets, its classes, and where its tensors lie in files.
`registry` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from segre.transformer.spec import Transformer

if TYPE_CHECKING:
    from segre.models.config import Config

Values = dict[str, Any]


@dataclass(frozen=True)
class Stored:
    """A tensor of a file: which tensors of a spec it holds, and how.

    Several lie one after the other, each as rows. A tensor of the spec is
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
    shape: tuple[int, ...] = ()  # of a constant that is no weight of the spec


Names = dict[str, Stored]  # by name of the tensor in the files


def no_rest(_given: Mapping[str, Any]) -> Values:
    """Nothing that depends on what was given."""
    return {}


def not_stacked(_spec: Transformer, _part: str, _config: Config) -> Names:
    """No other names."""
    return {}


def run_all(_config: Config) -> None:
    """Refuse nothing."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of models of the transformers library."""

    model_type: str
    # --- configs ---
    base_class: str  # the class without a head
    head_classes: tuple[str, ...]  # those with a distribution over the vocabulary
    pooler: bool = False  # the class without a head has a pooler
    defaults: Values  # what the library's config class has where a config is silent
    also: tuple[str, ...] = ()  # other names that the library has for keys
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # values that specs can say
    read: Callable[[Config], Values]  # the keys of a spec that a config gives
    write: Callable[[Transformer], Values]  # the keys of a config that a spec gives
    runs: Callable[[Config], None] = run_all  # refuses what specs leave aside and files do not mend
    # --- files ---
    prefix: str  # of the tensors of the class without a head, in files of the others
    tensors: Callable[[Transformer, str, Config], Names]  # of a part; names no spec has do no harm
    # other names, of tensors that some files have instead of those that hold the same
    stacked: Callable[[Transformer, str, Config], Names] = not_stacked
    copies: Mapping[str, str] = field(default_factory=dict)  # tied: file's name -> spec's name
    old_names: tuple[tuple[str, str], ...] = ()  # endings, and what older files have instead
    buffers: tuple[str, ...] = ()  # endings of constants that some versions stored
    unused: tuple[str, ...] = ()  # beginnings of what a file may have and its class does not use
    # --- inline specs and presets ---
    choices: Values  # keys that need not be given
    with_tokens: Values = field(default_factory=dict)  # further ones, with a vocabulary
    with_words: Values = field(default_factory=dict)  # and with a distribution over it
    rest: Callable[[Mapping[str, Any]], Values] = no_rest  # further ones, by what is given
    presets: Mapping[str, Values] = field(default_factory=dict)  # the models people run

    @property
    def name(self) -> str:
        """As inline specs have it."""
        return self.model_type.replace("_", "-")

    @property
    def rotary(self) -> bool:
        """Whether positions are rotations."""
        return bool(self.choices["pos"] == "rope")

    def inline(self, given: Mapping[str, Any]) -> Values:
        """The values of keys that an inline spec need not give, as far as they go with the rest."""
        out = dict(self.choices)
        if given.get("vocab") not in (None, 0):
            out |= self.with_tokens
            if given.get("output") != "hidden":
                out |= self.with_words
        return out | self.rest(given)


def fourfold(given: Mapping[str, Any]) -> Values:
    """MLPs four times as wide as the stream, unless there are none."""
    d = given.get("d")
    return {"ff": 4 * d} if isinstance(d, int) and given.get("mlp") != "none" else {}


# --- tables of names ----------------------------------------------------------------------------


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
