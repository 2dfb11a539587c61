"""What segre knows about a family of models, as data.

For each family a module of this package says how configs become specs, the defaults of inline
specs, its presets, its classes, and where its tensors lie in files. `registry` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from segre.errors import SpecError
from segre.models.stored import Layout, Names, linear, one_by_one
from segre.transformer.spec import Transformer
from segre.values import show

if TYPE_CHECKING:
    from segre.models.config import Config

Values = dict[str, Any]

# Prefixes that replace that of the family: none (the class without a head), those of question
# answering, and those of language models within models of images and text.
BEFORE = ("", "transformer.", "language_model.", "language_model.model.", "model.language_model.")
# Tensors that such files have beside those of the language model.
BESIDE = tuple(
    f"{at}{name}"
    for at in ("", "model.")
    for name in ("vision_tower.", "vision_model.", "visual.", "multi_modal_projector.")
)


def columns(*keys: str) -> Callable[..., Values]:
    """What makes a config of the values of these keys, in this order, and what else is said."""
    return lambda *values, **rest: {**dict(zip(keys, values, strict=True)), **rest}


# --- classes with labels --------------------------------------------------------------------------


@dataclass(frozen=True)
class Labelled:
    """A class whose logits are those of labels."""

    name: str
    at: str  # the linear map to the labels, in files
    read: str  # from which tokens
    outbias: bool = True
    pooler: bool = False
    pooled_at: str = ""  # the linear map of the pooler, in files, if it is one of this class alone
    transform: bool = False  # a dense layer comes before, with a norm or without
    headnorm: bool = True
    dense_at: str = ""  # that layer in files, if it is one of this class alone
    count: int = 0  # how many labels there are; 0: as many as the config says

    @property
    def keys(self) -> Values:
        """Its keys in a spec, apart from the number of labels."""
        out = {"read": self.read, "outbias": self.outbias, "pooler": self.pooler}
        return {**out, "transform": self.transform, "headnorm": self.headnorm}


def answers(name: str, at: str = "qa_outputs", *, transform: bool = False) -> Labelled:
    """Two logits per token: an answer starts there, and it ends there."""
    return Labelled(f"{name}ForQuestionAnswering", at, "all", transform=transform, count=2)


def decoder_labels(name: str, at: str = "score") -> tuple[Labelled, ...]:
    """Labels of the last token, without biases, labels of all tokens, and answers."""
    return (
        Labelled(f"{name}ForSequenceClassification", "score", "last", outbias=False),
        Labelled(f"{name}ForTokenClassification", at, "all"),
        answers(name),
    )


def encoder_labels(name: str) -> tuple[Labelled, ...]:
    """Labels of the pooled token, labels of all tokens, and answers."""
    return (
        Labelled(f"{name}ForSequenceClassification", "classifier", "first", pooler=True),
        Labelled(f"{name}ForTokenClassification", "classifier", "all"),
        answers(name),
    )


# --- families -------------------------------------------------------------------------------------


def fourfold(given: Mapping[str, Any]) -> Values:
    """MLPs four times as wide as the stream, if there are MLPs; no offset of other positions."""
    d, learned = given.get("d"), given.get("pos", "learned") == "learned"
    wide = {"ff": 4 * d} if isinstance(d, int) and given.get("mlp") != "none" else {}
    return wide if learned else {**wide, "offset": 0}


@dataclass(frozen=True, kw_only=True)
class Family:
    """One family of models of the transformers library."""

    model_type: str
    # --- configs ---
    base_class: str  # the class without a head
    head_classes: tuple[str, ...]  # those with a distribution over the vocabulary
    label_classes: tuple[Labelled, ...] = ()  # those with labels instead
    related_class: str = ""  # with labels of the pooled token beside the vocabulary
    related: int | None = None  # how many; None: as many as the config has labels
    pooler: bool = False  # the class without a head has a pooler
    defaults: Values  # what the library's config class has where a config is silent
    own: Mapping[str, str] = field(default_factory=dict)  # its names of keys, by the usual name
    also: tuple[str, ...] = ()  # usual names and others that the library has beside its own
    only: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)  # values that specs can say
    read: Callable[[Config], Values]  # the keys of a spec that a config gives
    # --- files ---
    prefix: str  # of the tensors of the class without a head, in files of the others
    tensors: Layout  # names that no spec has do no harm
    copies: Mapping[str, str] = field(default_factory=dict)  # tied: file's name -> spec's name
    old_names: tuple[tuple[str, str], ...] = ()  # endings, and what older files have instead
    buffers: tuple[str, ...] = ()  # endings of constants that some versions stored
    unused: tuple[str, ...] = ()  # beginnings of what a file may have and its class does not use
    # --- inline specs and presets ---
    choices: Values  # keys that need not be given
    with_tokens: Values = field(default_factory=dict)  # further ones, with a vocabulary
    with_words: Values = field(default_factory=dict)  # and with a distribution over it
    rest: Callable[[Mapping[str, Any]], Values] = lambda _given: {}  # further ones, by the others
    models: Mapping[str, Values] = field(default_factory=dict)  # public: what is not a default

    @cached_property
    def presets(self) -> dict[str, Values]:
        """The configs of public models: the library's defaults, and what they say beside them."""
        usual = {key: value for key, value in self.defaults.items() if value is not None}
        usual |= {"model_type": self.model_type, "architectures": [self.usual_class]}
        return {name: {**usual, **own} for name, own in self.models.items()}

    @property
    def classes(self) -> tuple[str, ...]:
        """Its classes, first the one without a head."""
        related = (self.related_class,) if self.related_class else ()
        labelled = (found.name for found in self.label_classes)
        return (self.base_class, *self.head_classes, *related, *labelled)

    @property
    def usual_class(self) -> str:
        """The class of a config that names none: the first with a head, if there is one."""
        return self.classes[:2][-1]

    @property
    def name(self) -> str:
        """Its name in inline specs."""
        return self.model_type.replace("_", "-")

    @property
    def rotary(self) -> bool:
        """Whether positions are rotary."""
        return bool(self.choices["pos"] == "rope")

    def inline(self, given: Mapping[str, Any]) -> Values:
        """Defaults of an inline spec, as far as they are compatible with the given keys."""
        out = dict(self.choices)
        if given.get("vocab") not in (None, 0):
            out |= self.with_tokens
        if given.get("labels") not in (None, 0):
            out |= self.label_classes[0].keys if self.label_classes else {}
        elif given.get("vocab") not in (None, 0) and given.get("output") != "hidden":
            out |= self.with_words
            out |= {"pooler": True} if given.get("relation") not in (None, 0) else {}
        return out | self.rest(given)

    def labelled(self, spec: Transformer) -> Labelled:
        """The class that reads labels as a spec does."""
        answers = spec.output == "logits"  # of which no distribution over labels is made
        for found in sorted(self.label_classes, key=lambda one: (one.count > 0) != answers):
            known = found.count in (0, spec.labels)
            if known and all(getattr(spec, key) == value for key, value in found.keys.items()):
                return found
        raise SpecError(
            f"no class of {self.name} reads labels with read={spec.read}, "
            f"outbias={show(spec.outbias)}, pooler={show(spec.pooler)} and "
            f"transform={show(spec.transform)}"
        )

    def names(self, file: str) -> Iterator[str]:
        """The names of a tensor in files of different classes and versions, newest first."""
        yield file
        bare = file.removeprefix(self.prefix)
        for before in BEFORE:
            yield before + bare
        for now, then in self.old_names:
            if bare.endswith(now):
                older = bare.removesuffix(now) + then
                yield self.prefix + older
                yield older

    def stored(self, spec: Transformer, part: str, config: Config) -> Names:
        """Where the tensors of a part lie, including those that read labels."""
        every = one_by_one(self.tensors(spec, part, config), spec.experts)
        if part != "head" or not spec.labels:
            return every
        named = [found for found in self.label_classes if found.name == config.class_name()]
        found = named[0] if named else self.labelled(spec)
        own = linear(found.at, "U") | (linear(found.pooled_at, "pool") if found.pooled_at else {})
        own |= linear(found.dense_at, "T") if found.dense_at else {}
        names = {name for how in own.values() for name in how.names}
        return {file: how for file, how in every.items() if not names & {*how.names}} | own
