"""The sentences of `segre model lineage` follow from its numbers, for results of every kind."""

import re
from dataclasses import replace
from itertools import combinations
from typing import Any, get_args

import numpy as np
import pytest

from segre.checkpoint import structure
from segre.checkpoint.comparison import Comparison
from segre.checkpoint.grids import Grid
from segre.checkpoint.kinship import NULL_MODELS, NULL_MOST, NULL_PAIRS, Kinship
from segre.checkpoint.lineage import (
    BETWEEN,
    Kind,
    Lineage,
    Relation,
    _among_others,
    _changed,
    _same,
    _strangers,
)
from segre.checkpoint.noise import Change
from segre.report.frame import frame_of
from segre.report.text import print_text

TYPES = {"F32": 2.0**-24, "F16": 2.0**-11, "BF16": 2.0**-8}
SIZE = r"(after a change of basis, )?(matrices|only embedding tables) differ by (\S+)%"


def rng_of(seed: int) -> np.random.Generator:
    return np.random.default_rng([seed, 33])


def chosen(rng: np.random.Generator, *values: Any) -> Any:
    return values[rng.integers(len(values))]


# --- results of every kind ------------------------------------------------------------------------


def drawn_kinship(rng: np.random.Generator) -> Kinship:
    """Any shares: extremes, and those a little above or below the threshold."""
    near = 0.65 + chosen(rng, 0.0, -1e-3, 1e-3, -1e-9, 1e-9)

    def share() -> float | None:
        return chosen(rng, None, 0.0, 1.0, near, near, float(rng.random()))  # type: ignore[no-any-return]

    heads, units = share(), share()
    members = 0 if heads is None and units is None else int(10 ** rng.uniform(0, 6))
    spread = chosen(rng, 0.0, 1e-9, 0.02, 0.3)
    silent = (0, 0) if rng.random() < 0.7 else (int(rng.integers(3)), int(rng.integers(2000)))
    distance = chosen(rng, 0.0, 1e-300, 1e-9, float(rng.random()), 2**0.5) if members else 0.0
    growth = chosen(rng, 0.0, -1.0, 1.0) * 10 ** rng.uniform(-12, 1)
    return Kinship(heads, units, members, distance, chosen(rng, 0.1, 0.5), spread, silent, growth)


def drawn_change(rng: np.random.Generator) -> Change:
    size = chosen(rng, 1e-300, 1e-9, 1e-4, 0.0099999, 10 ** rng.uniform(-7, 1), 3e5)
    return Change(
        bool(rng.integers(2)),
        float(size),
        chosen(rng, 0.0, 1.0, 1.1, 1.11, 1.13, 50.0, 1e9),
        chosen(rng, 0.0, 0.0, 0.0099, 0.01, 0.5, 1.0),
        chosen(rng, 0.0, 0.5, 1.0, 1.01, 1e6),
        chosen(rng, 0.0, 1.0, 1.01),
        chosen(rng, 0, 1, 7),
        chosen(rng, 0, 1),
        int(10 ** rng.uniform(0, 9)),
        float(size),
    )


def drawn_grid(rng: np.random.Generator) -> Grid:
    return Grid(chosen(rng, *TYPES), chosen(rng, None, None, 4, 8))


def drawn_comparison(rng: np.random.Generator) -> Comparison:
    verdict = chosen(rng, "identical", "same function", "same up to bf16 rounding")
    outputs = chosen(rng, 0.0, 10 ** rng.uniform(-16, -2))
    return Comparison(
        verdict, "blocks agree", outputs=outputs, roundoff=chosen(rng, *TYPES.values())
    )


def drawn_pair(rng: np.random.Generator, one: str, two: str) -> Relation:
    kin = drawn_kinship(rng)
    if rng.random() < 0.1:
        return Relation(one, two, "identical", "all tensors have the same values")
    if kin.related is not True:
        return Relation(one, two, *_strangers(kin), kin)
    if rng.random() < 0.2:
        return Relation(one, two, *_same(drawn_comparison(rng), in_place=False), kin)
    found = drawn_change(rng)
    return Relation(one, two, *_changed(found, kin, drawn_grid(rng), drawn_grid(rng)), kin, found)


# --- one pair -------------------------------------------------------------------------------------


def check_size(text: re.Match[str], found: Change) -> None:
    """The difference that is said is the one that was measured, and nonzero."""
    assert bool(text[1]) == found.moved
    assert (text[2] == "matrices") == bool(found.layers)
    assert text[3] == f"{100 * found.size:.3g}"
    assert float(text[3]) > 0


def check_changed(verdict: Kind, reason: str, found: Change, kin: Kinship, grids: Any) -> None:
    one, two = grids
    if "only vectors" in reason:
        assert verdict == "fine-tuned"
        if "more than rounding" in reason:
            assert found.widest <= 1 < found.vectors
        else:
            assert not found.layers
            assert not found.tables
        return
    text = re.fullmatch(rf"{SIZE}(, and|;) (.*)", reason)
    assert text, reason
    check_size(text, found)
    rest = text[5]
    if verdict == "rounded":
        coarser = max(one.type, two.type, key=TYPES.__getitem__)
        assert rest == f"all values of one are exact in type {coarser}"
        assert one.type != two.type
        assert found.widest <= 1
    elif levels := re.fullmatch(r"the matrices of one are quantised to (\d) bits", rest):
        assert verdict == "quantised"
        assert sorted(x.bits or 0 for x in grids) == [0, int(levels[1])]
    elif silent := re.fullmatch(r"(\S+) and (\S+) heads and units have zero output", rest):
        assert verdict == "pruned"
        assert tuple(int(x.replace(",", "")) for x in silent.groups()) == kin.silent
        assert silent[1] != silent[2]
    elif zero := re.fullmatch(r"(\S+)% of the values are zero in only one of them(,.*)?", rest):
        assert zero[1] == f"{100 * found.zeroed:.1f}"
        assert found.zeroed >= 0.01
        assert verdict == ("quantised" if zero[2] else "pruned")
        assert zero[2] in (None, ", and the others changed")
        assert not zero[2] or kin.growth >= -0.4 * found.size**2
    elif lost := re.fullmatch(
        r"the squares of the second are smaller by (\S+) squares of that difference; 1 is values "
        "removed, -1 noise",
        rest,
    ):
        assert verdict == "pruned"
        assert lost[1] == f"{-kin.growth / found.size**2:.2f}"
        assert kin.growth < 0
        assert float(lost[1]) >= 0.4
    else:
        noise = re.fullmatch(
            r"(values changed independently of each other|rows changed together)(, as noise does, "
            r"or rounding before the change of basis)? \(structure (\S+); 1 is pure noise\)",
            rest,
        )
        assert noise, rest
        assert noise[3] == f"{found.structure:.2f}"
        assert noise[1].startswith("values") == (found.structure <= (1.12 if found.moved else 1.1))
        assert verdict == ("noise added" if noise[1].startswith("values") else "fine-tuned")
        assert bool(noise[2]) == (verdict == "noise added" and found.moved)


def test_every_kind_of_change_is_said_as_it_was_measured() -> None:
    seen = set()
    for seed in range(3000):
        rng = rng_of(seed)
        found, kin = drawn_change(rng), drawn_kinship(rng)
        grids = drawn_grid(rng), drawn_grid(rng)
        verdict, reason = _changed(found, kin, *grids)
        check_changed(verdict, reason, found, kin, grids)
        seen.add((verdict, re.sub(r"[\d.e+-]+", "", reason)))
    assert {verdict for verdict, _ in seen} == {
        "rounded", "quantised", "pruned", "noise added", "fine-tuned",
    }  # fmt: skip
    assert len(seen) > 30


def test_copies_are_called_what_they_are() -> None:
    for seed in range(200):
        given = drawn_comparison(rng_of(seed))
        for in_place in (False, True):
            verdict, reason = _same(given, in_place=in_place)
            assert (verdict == "identical") == (given.verdict == "identical")
            assert verdict == "identical" or (verdict == "rounded") == in_place
            if verdict.endswith("moved"):
                assert reason == f"blocks agree; outputs differ by {given.outputs:.2g}"
                assert (verdict == "same function, moved") == (given.roundoff == 2.0**-24)


def percent(text: str) -> float:
    return float(text.rstrip("%")) / 100


def check_relatives(words: str, kin: Kinship) -> None:
    """Shares and the threshold, as rounded as they are, on the sides on which they were."""
    own = re.fullmatch(
        r"relatives: (.*) have their nearest relative in the other model \((\S+) asked(?:, mean "
        r"(\S+%))?\); threshold (\S+%); none of (\d+) pairs of (\d+) independently trained models "
        r"had more than (\S+)%: false positives below (\S+)% \(95% confidence, assuming "
        r"independent pairs\)",
        words,
    )
    assert own, words
    assert int(own[2].replace(",", "")) == kin.members
    shares = dict(x.split(" of the ")[::-1] for x in own[1].split(" and ") if "%" in x)
    given = {"heads": kin.heads, "units": kin.units}
    known = {kind: x for kind, x in given.items() if x is not None}
    assert shares.keys() == known.keys()
    digits = len(own[4].partition(".")[2].rstrip("%"))
    for kind, x in known.items():
        assert shares[kind] == f"{x:.{digits}%}"
    assert bool(own[3]) == (len(known) == 2)
    if known:
        share = percent(own[3] or shares[next(iter(known))])
        assert share == pytest.approx(np.mean(list(known.values())), abs=0.51 * 10 ** (-2 - digits))
        assert (share >= percent(own[4])) == (kin.share >= kin.threshold)
    assert own[4] == f"{kin.threshold:.{digits}%}"
    assert (int(own[5]), int(own[6])) == (NULL_PAIRS, NULL_MODELS)
    assert float(own[7]) >= 100 * NULL_MOST - 1e-9
    assert 3 / NULL_PAIRS <= percent(own[8]) < 3 / NULL_PAIRS + 0.0011


def test_a_pair_is_printed_with_its_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    verdicts = set()
    for seed in range(600):
        rng = rng_of(seed)
        found = drawn_pair(rng, "a", "b")
        verdicts.add(found.verdict)
        print_text(found)
        said, reason, *rest = capsys.readouterr().out.splitlines()
        assert said.partition(":")[0] == found.verdict
        assert ("both from a common origin" in said) == (found.verdict == "fine-tuned")
        assert reason == found.reason
        if found.kinship is not None:
            check_relatives(rest.pop(0), found.kinship)
            share, limit = found.kinship.share, found.kinship.threshold
            if found.kinship.members:
                assert (share >= limit) == bool(found.related)
        assert bool(rest) == (found.verdict not in ("unrelated", "undecided"))
        assert not rest or "it does not show which checkpoint came first" in rest[0]
        row = frame_of(found).iloc[0]
        told = row["verdict"], row["distance"], row["reason"]
        assert told == (found.verdict, found.distance, found.reason)
    assert verdicts >= {"identical", "unrelated", "undecided", "noise added", "fine-tuned"}


# --- several --------------------------------------------------------------------------------------


def drawn_lineage(seed: int) -> Lineage:
    """Pairs that may contradict each other; or points in a plane, with ties and copies."""
    rng = rng_of(seed)
    names = tuple(f"folder/{x}" for x in "abcdef"[: rng.integers(3, 7)])
    pairs = [drawn_pair(rng, *two) for two in combinations(names, 2)]
    if seed % 2:
        places = {name: rng.integers(0, 4, 2) * chosen(rng, 0.0, 0.1) for name in names}
        pairs = [
            replace(
                pair,
                verdict="fine-tuned",
                reason="trained",
                kinship=Kinship(
                    1.0,
                    1.0,
                    9,
                    float(np.linalg.norm(places[pair.one] - places[pair.two])),
                    0.5,
                    0.0,
                ),
            )
            for pair in pairs
        ]
    return Lineage(names, tuple(_among_others(pair, pairs) for pair in pairs))


def test_a_third_lies_between_two_only_if_it_does() -> None:
    between = neither = 0
    for seed in range(400):
        found = drawn_lineage(seed)
        apart = {frozenset((x.one, x.two)): x.distance for x in found if x.related}
        for pair in found:
            third = re.search(r"(\S+) lies between them|and (\S+), none lies", pair.reason)
            assert (pair.verdict == "common origin") == bool(third)
            if not third:
                continue
            name = third[1] or third[2]
            assert name not in (pair.one, pair.two)
            c = pair.distance
            a, b = (apart[frozenset((name, x))] for x in (pair.one, pair.two))
            if third[1]:  # the angle at the third is the widest of the triangle
                between += 1
                assert c >= max(a, b)
            else:
                neither += 1
                sides = ((a, b, c), (a, c, b), (b, c, a))
                cosines = sorted(
                    (x * x + y * y - z * z) / max(2 * x * y, 1e-300) for x, y, z in sides
                )
                assert cosines[1] - cosines[0] < BETWEEN
    assert between > 30
    assert neither > 30


def test_several_are_printed_with_their_numbers(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "10000")
    for seed in range(200):
        found = drawn_lineage(seed)
        print_text(found)
        lines = capsys.readouterr().out.splitlines()
        kinds = "|".join(get_args(Kind))
        for line, pair in zip(lines[1:], found, strict=False):
            row = re.fullmatch(rf"(\S) - (\S) +({kinds})(?: +(\S+))?(?: +(\S+))? *", line)
            assert row, line
            assert (f"folder/{row[1]}", f"folder/{row[2]}", row[3]) == (
                pair.one,
                pair.two,
                pair.verdict,
            )
            values = [x for x in row.groups()[3:] if x is not None]
            expected = [] if pair.kinship is None else [pair.kinship.share]
            if pair.kinship is None or pair.kinship.members:
                expected.append(pair.distance)
                assert values[-1] == f"{pair.distance:.2g}"
            assert len(values) == len(expected)
            if pair.kinship is not None and pair.kinship.members:
                limit = pair.kinship.threshold
                digits = len(values[0].partition(".")[2])
                assert values[0] == f"{pair.kinship.share:.{digits}f}"
                assert (float(values[0]) >= float(f"{limit:.{digits}f}")) == bool(pair.related)
        lines = lines[1 + len(found.pairs) :]
        assert lines.pop(0).startswith("tree: the nearest relatives")
        groups = [
            line.partition(": ")[2].split(", ") for line in lines if line.startswith("origin")
        ]
        assert [tuple(group) for group in groups] == list(found.groups)
        check_tree(found, [line for line in lines if not line.startswith(("origin", "relatives"))])
        limits = [x.kinship.threshold for x in found if x.kinship is not None]
        if limits:
            said = re.search(r"threshold ([\d.]+)%(?: to ([\d.]+)%)?;", lines[-1])
            assert said
            digits = len(said[1].partition(".")[2])
            assert said[1] == f"{100 * min(limits):.{digits}f}"
            assert (said[2] or said[1]) == f"{100 * max(limits):.{digits}f}"


def check_tree(found: Lineage, lines: list[str]) -> None:
    """Every checkpoint once; every edge a pair with a common origin or in one group, no shorter."""
    above: list[str] = []
    edges, seen = [], []
    for line in lines:
        text = re.fullmatch(r"([│├└─ ]*)([a-f])(?:  (\S+))?", line)
        assert text, line
        depth = len(text[1]) // 4
        above[depth:] = [f"folder/{text[2]}"]
        seen.append(above[-1])
        assert (depth == 0) == (text[3] is None)
        if depth:
            edges.append((above[depth - 1], above[depth], text[3]))
    assert sorted(seen) == sorted(found.names)
    apart = {frozenset((x.one, x.two)): x.distance for x in found}
    group = {name: every for every in found.groups for name in every}
    for near, far, distance in edges:
        assert group[near] == group[far]
        assert distance == f"{apart[frozenset((near, far))]:.2g}"
    for every in found.groups:  # no tree that joins a group is shorter
        own = sum(apart[frozenset(x[:2])] for x in edges if x[0] in every)
        assert own == pytest.approx(shortest(every, apart))


def shortest(names: tuple[str, ...], apart: dict[frozenset[str], float]) -> float:
    """The length of the shortest tree, by taking the shortest edges that close no circle."""
    total, tree = 0.0, {name: name for name in names}
    for one, two in sorted(combinations(names, 2), key=lambda x: apart[frozenset(x)]):
        if tree[one] != tree[two]:
            total += apart[frozenset((one, two))]
            tree = {n: tree[one] if root == tree[two] else root for n, root in tree.items()}
    return total


# --- layers ---------------------------------------------------------------------------------------


def test_layers_that_moved_are_named_with_the_model_that_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(structure, "_view", lambda model, order: (model, tuple(order)))
    seen = set()
    for seed in range(400):
        rng = rng_of(seed)
        layers = int(rng.integers(3, 9))
        some = rng.choice(layers, int(rng.integers(1, 3)), replace=False).tolist()
        turn = int(rng.integers(layers))
        order = [*range(turn, layers), *range(turn)]
        how = chosen(rng, "drop", "repeat", "turn")
        if how == "drop":
            order = [i for i in order if i not in some]
        elif how == "repeat":
            order = sorted([*range(layers), *some])
        alike = np.eye(layers)[:, order]  # of the layers of a source to those of the other
        turned = bool(rng.integers(2))
        *_, said = structure._with_layers_matched("one", "two", alike.T if turned else alike)  # type: ignore[arg-type]
        source, other = ("second", "first") if turned and how != "turn" else ("first", "second")
        named = {}
        for kind, words in said:
            text = re.fullmatch(
                rf"the {other} (lacks|repeats|has) layers? ([\d, ]+) of the {source}(, in .*)?",
                words,
            )
            assert text, words
            named[kind] = [int(x) - 1 for x in text[2].split(", ")]
            assert text[1] == {"dropped": "lacks", "duplicated": "repeats"}.get(kind[7:], "has")
        expected = {}
        if how == "drop":
            expected["layers dropped"] = sorted(some)
        if how == "repeat":
            expected["layers duplicated"] = sorted(some)
        elif order != sorted(order):
            back = how == "turn" and turned  # of two of one depth, the first is the source
            expected["layers reordered"] = np.argsort(order).tolist() if back else order
        assert named == expected
        seen |= named.keys()
    assert seen == {"layers dropped", "layers duplicated", "layers reordered"}
