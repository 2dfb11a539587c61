"""What is an experiment: a question about a published work, asked with seeds and options?

An experiment is data with one function. The function gets a `Run` (seeds, options, where to keep
what is done) and gives back what it `Found`: claims, tables and panels to draw. `perform` makes an
`Outcome` of it. An outcome is a document that can be stored and read back; the time it took is no
part of it, so that the same command gives the same document.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from segre.errors import SegreError
from segre.geometry.progress import Progress, quiet
from segre.json_data import json_data
from segre.libraries import library
from segre.reproduce.claim import Claim, Verdict
from segre.reproduce.found import Found, Panel, Seeds, Series, Table
from segre.reproduce.state import Kept, Store
from segre.shown import Shown


@dataclass(frozen=True)
class Work:
    """A publication."""

    title: str
    authors: str
    year: int
    arxiv: str

    def __str__(self) -> str:
        return f"{self.authors}, {self.title} ({self.year}, arXiv {self.arxiv})"


@dataclass(frozen=True)
class Option:
    """An option of one experiment, as the command line shows it; a `bool` is a flag.

    Without a default it is `None`, and the experiment says what that means.
    """

    name: str  # with hyphens: --hidden-width
    kind: type
    default: Any
    help: str
    least: float | None = None
    most: float | None = None
    allowed: tuple[str, ...] = ()
    several: bool = False  # may be given more than once

    @property
    def key(self) -> str:
        """Its name in Python."""
        return self.name.replace("-", "_")


@dataclass(frozen=True)
class Run:
    """One run as an experiment sees it."""

    seeds: tuple[int, ...]
    full: bool
    options: Mapping[str, Any]
    store: Store
    progress: Progress = quiet

    def unit(self, name: str, work: Callable[[Kept], Any]) -> Any:
        """A unit of work: plain data, computed once and then kept (see `Store`)."""
        return self.store.unit(name, work)

    def each_seed(self, stage: str, work: Callable[[int, Kept], Any]) -> Seeds:
        """A unit for each seed, under one name."""
        found = Seeds()
        for place, seed in enumerate(self.seeds):
            self.progress(f"{stage}, seed {seed}", place, len(self.seeds))
            found.append(self.unit(f"{stage}, seed {seed}", partial(work, seed)))
        return found


@dataclass(frozen=True)
class Experiment:
    """A question about a work, and how it is asked."""

    name: str  # segre reproduce NAME
    title: str  # one sentence: what runs
    work: Work
    question: str  # one sentence, with a question mark
    run: Callable[[Run], Found]
    examples: tuple[str, ...]  # what follows "segre reproduce", for the help
    options: tuple[Option, ...] = ()
    seeded: bool = True  # nothing is random otherwise
    longer: str = ""  # what --full adds; without it there is no such option
    needs: tuple[str, ...] = ()  # libraries that not everyone has
    small: Mapping[str, Any] = field(
        default_factory=dict
    )  # options of a run of a second, for tests
    refuse: Callable[[Mapping[str, Any]], None] | None = None  # options that contradict each other
    # The spec, and the dimension if it is proved, that a row of the first table is about.
    dimension_of: Callable[[Sequence[Any]], tuple[str, int | None]] | None = None

    def defaults(self) -> dict[str, Any]:
        """Every option as it is if not given."""
        return {option.key: option.default for option in self.options}


@dataclass(frozen=True)
class Outcome(Shown):
    """What came out of an experiment."""

    experiment: str
    title: str
    question: str
    work: Work
    command: str
    seeds: tuple[int, ...]
    full: bool
    options: Mapping[str, Any]
    found: Found
    seconds: float = 0.0  # of all parts of the run; no part of the document

    @property
    def claims(self) -> Sequence[Claim]:
        """What was compared."""
        return self.found.claims

    def counts(self) -> dict[Verdict, int]:
        """How many claims there are of each status."""
        seen = Counter(claim.status for claim in self.claims)
        names: tuple[Verdict, ...] = ("reproduced", "not reproduced", "not testable here")
        return {name: seen[name] for name in names}

    def document(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        plain = json_data(asdict(self))
        del plain["seconds"]
        found = plain.pop("found") | {"claims": [claim.document() for claim in self.claims]}
        return {**plain, "counts": self.counts(), **found}

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Outcome:
        """Read a document back."""
        found = Found(
            [Claim.of(claim) for claim in document["claims"]],
            [Table(**table) for table in document["tables"]],
            [
                Panel(**panel | {"series": [Series(**one) for one in panel["series"]]})
                for panel in document["panels"]
            ],
            document["notes"],
        )
        plain = {one.name: document[one.name] for one in fields(cls)[:8]}
        made = {"work": Work(**plain["work"]), "seeds": tuple(plain["seeds"])}
        return cls(**plain | made, found=found)


def perform(
    experiment: Experiment,
    *,
    seed: int = 0,
    seeds: int = 3,
    full: bool = False,
    options: Mapping[str, Any] | None = None,
    file: Path | None = None,
    fresh: bool = False,
    progress: Progress = quiet,
) -> Outcome:
    """Run an experiment, or go on with the run in `file`.

    The seeds are `seeds` whole numbers from `seed` on. A file of a run with other seeds or options
    is refused.
    """
    given = {key: value for key, value in (options or {}).items() if value is not None}
    unknown = sorted(given.keys() - experiment.defaults().keys())
    if unknown:
        allowed = ", ".join(experiment.defaults()) or "none"
        raise SegreError(
            f"{experiment.name}: unknown option {', '.join(unknown)}; allowed: {allowed}"
        )
    meant = experiment.defaults() | given
    if experiment.refuse is not None:
        experiment.refuse(meant)
    for name in experiment.needs:
        library(name, "training" if name == "torch" else experiment.name, extra="models")
    drawn = tuple(range(seed, seed + seeds)) if experiment.seeded else ()
    which = {"experiment": experiment.name, "seeds": list(drawn), "full": full, **meant}
    store = Store(file, which, fresh=fresh)
    found = experiment.run(Run(drawn, full, meant, store, progress))
    command = command_of(experiment, seed, seeds, full, given)
    about = (experiment.name, experiment.title, experiment.question, experiment.work, command)
    return Outcome(*about, drawn, full, meant, found, store.seconds)


def command_of(
    experiment: Experiment, seed: int, seeds: int, full: bool, given: Mapping[str, Any]
) -> str:
    """The command that gives an outcome; options with their default values are left out."""
    words = ["segre", "reproduce", experiment.name]
    words += ["--seed", str(seed)] * (experiment.seeded and seed != 0)
    words += ["--seeds", str(seeds)] * (experiment.seeded and seeds != 3)
    words += ["--full"] * full
    for option in experiment.options:
        value = given.get(option.key, option.default)
        if value == option.default:
            continue
        if option.kind is bool:
            words.append(f"--{option.name}")
            continue
        for one in value if option.several else (value,):
            words += [f"--{option.name}", f"{one:g}" if isinstance(one, float) else str(one)]
    return shlex.join(words)
