"""The section on depth: relative residuals by layer, of the model and of changed versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, isnan, log10
from typing import Any

import numpy as np

from segre.analysis.depth import last_median
from segre.analysis.part import Part
from segre.collapse.study import medians
from segre.collapse.verdict import THRESHOLD
from segre.report.blocks import Block, Facts, Figure, Fold, Items, Row, Table
from segre.report.charts import Number, lines, residuals
from segre.values import from_logarithm


def blocks(part: Part) -> Iterator[Block]:
    """The curves, and on what they were measured."""
    assert part.data is not None
    if part.data["kind"] == "stack":
        yield from _of_stack(part)
    else:
        yield from _of_model(part)


def _of_model(part: Part) -> Iterator[Block]:
    assert part.data is not None
    data = part.data
    every = sorted(data["curves"], key=lambda curve: bool(curve["variant"] != "full"))
    names = {one["variant"]: one["words"] for one in data["versions"]}
    curves = [curve for curve in every if ":" not in curve["variant"]]
    ordered = {names[curve["variant"]]: _values(curve["log10"]) for curve in curves}
    bare = [names[curve["variant"]] for curve in curves if not curve["norm"]]
    dominated = {_without(curve, names): curve for curve in curves if curve["sink"] is not None}
    ordered |= {name: curve["without"]["mean"] for name, curve in dominated.items()}
    removed = residuals(
        "depth",
        "How different tokens are, by layer",
        part.takeaways["depth"],
        ordered,
        dashed=bare,
        dotted=list(dominated),
        note="1 means that tokens have nothing in common, 0 that all of them are the same: the "
        "rank has collapsed. Dashed lines are without norms. "
        f"Below {data['floor']:.1e} single precision has only rounding errors, so mean and "
        "residual are carried apart there, for the first input. A line ends where that is not "
        "possible, or where numbers vanish or are not finite."
        + " Dotted lines leave out the token that dominates."
        * bool(dominated),
    )
    changed = (_changed(part, every, names),) if len(every) > len(curves) else ()
    yield Row((removed, *changed)) if changed else removed
    yield Fold("versions", "All versions, one by one", (*_versions(data), *_notes(part)))


def _versions(data: Mapping[str, Any]) -> Iterator[Block]:
    """What becomes of each version, and on what that was measured."""
    logs = {curve["variant"]: _values(curve["log10"]) for curve in data["curves"]}
    rows = tuple(
        (
            one["words"],
            logs[one["variant"]][0],
            logs[one["variant"]][-1],
            _outcome(one),
            one["variant"],
        )
        for one in data["versions"]
    )
    yield Table(
        "versions",
        "Relative residual, and what becomes of it",
        ("version", "before layer 1", "after the last layer", "tokens", "name in commands"),
        rows,
        (False, True, True, False, False),
    )
    inputs = data["inputs"]
    seed = "" if data["seed"] is None else f"seed {data['seed']}"
    dominant = (
        (
            f"token {curve['sink']['position']}",
            round(curve["sink"]["factor"], 1),
            f"times the median norm of tokens, after layer {curve['sink']['layer']} "
            f"(`{curve['variant']}`)",
        )
        for curve in data["curves"]
        if curve["sink"] is not None
    )
    yield Facts(
        (
            ("weights", data["weights"], seed),
            ("inputs", inputs["count"], f"{inputs['kind']}, up to {inputs['length']} tokens"),
            *dominant,
        )
    )


def _outcome(version: Mapping[str, Any]) -> str:
    if version["collapses"] is None:
        return "cannot be judged"
    if not version["collapses"]:
        return "stay different"
    return f"become alike from layer {version['from_layer']} on"


def _notes(part: Part) -> Iterator[Block]:
    if part.notes:
        model = part.data is not None and part.data["kind"] == "model"
        yield Items("In words, by the names that commands use" if model else "", part.notes)


def _changed(part: Part, curves: list[Mapping[str, Any]], names: Mapping[str, str]) -> Figure:
    """Attention alone as it is and changed, beside the model."""
    shown = {
        names[curve["variant"]]: _values(curve["log10"])
        for curve in curves
        if curve["variant"].partition(":")[0] == "attention" or curve["variant"] == "full"
    }
    return residuals(
        "what-if",
        "What if attention were different?",
        part.takeaways["what-if"],
        shown,
        note="Attention only, without skips and MLPs, as it is and changed. Uniform part removed: "
        "1/t is subtracted from every weight of a pattern of t tokens. Window: a token sees at "
        "most that many tokens. Random gates: what heads mix is multiplied by sigmoid(W_G x); the "
        "model was not trained with gates, and W_G is random.",
    )


def _without(curve: Mapping[str, Any], names: Mapping[str, str]) -> str:
    return f"{names[curve['variant']]}, token {curve['sink']['position']} left out"


def _values(logs: list[Number]) -> list[Number]:
    """Numbers from their decimal logarithms; None where floats end."""
    return [None if log is None or log < -300 else 10.0**log for log in logs]


def _of_stack(part: Part) -> Iterator[Block]:
    assert part.data is not None
    data = part.data
    names = ("as it is", "without skips" if data["skip"] else "with skips added")
    series: dict[str, list[Number]] = {names[0]: _medians(data["log10"]["relative"])}
    if data["other"] is not None:
        series[names[1]] = _medians(data["other"]["relative"])
    last = from_logarithm(last_median(data["log10"]["relative"]))
    yield lines(
        "depth",
        "How different tokens are, by layer",
        f"The decimal logarithm of the relative residual after every layer; at the end the "
        f"relative residual is {last}.",
        part.takeaways["depth"],
        list(range(len(series[names[0]]))),
        series,
        y="log10 of the relative residual",
        log=False,
        note="Medians over inputs. Near 0, tokens have nothing in common; far below 0, all of them "
        "are nearly the same: the rank has collapsed.",
    )
    yield from _notes(part)


def _medians(rows: list[list[float]]) -> list[Number]:
    """Medians over inputs, by layer; None where they are not finite."""
    return [float(x) if isfinite(x) else None for x in medians(np.array(rows, float))]


def verdict(data: Mapping[str, Any]) -> tuple[str, str]:
    """Whether tokens stay different, in a word or two, and what was measured."""
    if data["kind"] == "stack":
        end = last_median(data["log10"]["relative"])
        if isnan(end):
            return "cannot be judged", "numbers are lost; random weights"
        word = "become alike" if end < log10(THRESHOLD) else "stay different"
        return word, f"relative residual {from_logarithm(end)}; random weights"
    full = next(curve for curve in data["curves"] if curve["variant"] == "full")
    last = _values(full["log10"])[-1]
    weights = f"{data['weights']} weights"
    if last is None:
        return "cannot be judged", f"numbers are lost; {weights}"
    if last < THRESHOLD:
        word, said = "become alike", f"relative residual {last:.2g}"
    else:
        word, said = "stay different", f"relative residual {last:.2g}"
    if full["sink"] is not None:
        without = full["without"]["mean"][-1]
        said += f", or {without:.2g} without token {full['sink']['position']}"
    return word, f"{said}; {weights}"
