"""The section on depth: relative residuals by layer and variant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite, log10
from statistics import median
from typing import Any

from segre.analysis.part import Part
from segre.collapse.verdict import THRESHOLD
from segre.report.analysis.charts import Number, lines
from segre.report.page.blocks import Block, Facts, Figure

_LOWEST = 1e-30  # what lies below is in the table


def blocks(part: Part) -> Iterator[Block]:
    """The curves, and on what they were measured."""
    assert part.data is not None
    if part.data["kind"] == "stack":
        yield from _of_stack(part.data)
    else:
        yield from _of_model(part.data)


def _of_model(data: Mapping[str, Any]) -> Iterator[Block]:
    every = sorted(data["curves"], key=lambda curve: bool(curve["variant"] != "full"))
    curves = [curve for curve in every if ":" not in curve["variant"]]
    ordered = {curve["variant"]: _values(curve["log10"]) for curve in curves}
    dominated = {_without(curve): curve for curve in curves if curve["sink"] is not None}
    ordered |= {name: curve["without"]["mean"] for name, curve in dominated.items()}
    layers = list(range(len(next(iter(ordered.values())))))
    yield lines(
        "depth",
        "How unlike tokens are, by layer",
        "The relative residual after every layer, on a logarithmic scale: "
        + "; ".join(f"{name} ends at {_said(values)}" for name, values in ordered.items())
        + ".",
        layers,
        ordered,
        y="relative residual",
        log=True,
        dashed=[name for name in ordered if name.endswith("-norm")],
        dotted=list(dominated),
        lowest=_LOWEST,
        note="1: tokens have nothing in common; 0: all are alike, the rank has collapsed. Full is "
        "the model as it is; the others have parts removed, dashed ones the norms too. Below "
        f"{data['floor']:.1e} single precision has only rounding: what is shown there is the "
        "first input, its mean and residual carried apart; where that is not possible, or numbers "
        "vanish or are not finite, lines end."
        + " Dotted lines leave out the token that dominates."
        * bool(dominated),
    )
    if len(every) > len(curves):
        yield _changed(every, layers)
    inputs = data["inputs"]
    yield Facts(
        (
            ("weights", data["weights"], "" if data["seed"] is None else f"seed {data['seed']}"),
            ("inputs", inputs["count"], f"{inputs['kind']}, up to {inputs['length']} tokens"),
            *(
                (
                    f"token {curve['sink']['position']}",
                    round(curve["sink"]["factor"], 1),
                    f"times the median norm of tokens, in {curve['variant']} after layer "
                    f"{curve['sink']['layer']}",
                )
                for curve in dominated.values()
            ),
        )
    )


def _changed(curves: list[Mapping[str, Any]], layers: list[int]) -> Figure:
    """Attention alone as it is and changed, beside the model."""
    shown = {
        curve["variant"]: _values(curve["log10"])
        for curve in curves
        if curve["variant"].partition(":")[0] == "attention" or curve["variant"] == "full"
    }
    return lines(
        "what-if",
        "What if attention were different?",
        "The relative residual after every layer, on a logarithmic scale: "
        + "; ".join(f"{name} ends at {_said(values)}" for name, values in shown.items())
        + ".",
        layers,
        shown,
        y="relative residual",
        log=True,
        lowest=_LOWEST,
        note="Attention alone, without skips and MLPs, as it is and changed. gapless: 1/t is "
        "subtracted from every weight of a pattern of t tokens. window: a token sees at most so "
        "many tokens. gate: what heads mix is multiplied by sigmoid(W_G x); the model was not "
        "trained with it, and W_G is random.",
        height=360,
    )


def _without(curve: Mapping[str, Any]) -> str:
    return f"{curve['variant']} without token {curve['sink']['position']}"


def _values(logs: list[Number]) -> list[Number]:
    """Numbers by their logarithms, as far down as floats go."""
    return [None if log is None or log < -300 else 10.0**log for log in logs]


def _said(values: list[Number]) -> str:
    known = [value for value in values if value is not None]
    return f"{known[-1]:.2g}" if known and values[-1] is not None else "no number"


def _of_stack(data: Mapping[str, Any]) -> Iterator[Block]:
    names = ("as it is", "without skips" if data["skip"] else "with skips added")
    series: dict[str, list[Number]] = {names[0]: _medians(data["log10"]["relative"])}
    if data["other"] is not None:
        series[names[1]] = _medians(data["other"]["relative"])
    last = series[names[0]][-1]
    yield lines(
        "depth",
        "How unlike tokens are, by layer",
        f"The decimal logarithm of the relative residual after every layer; at the end {last}.",
        list(range(len(series[names[0]]))),
        series,
        y="log10 of the relative residual",
        log=False,
        note="Medians over inputs. 0: tokens have nothing in common; far below: all are alike, the "
        "rank has collapsed.",
    )


def _medians(rows: list[list[float]]) -> list[Number]:
    """Over inputs, by layer; what is not finite is left out."""
    found: list[Number] = []
    for column in zip(*rows, strict=True):
        known = [value for value in column if isfinite(value)]
        found.append(median(known) if known else None)
    return found


def verdict(data: Mapping[str, Any]) -> tuple[str, str]:
    """Whether it collapses, in two words, and a number."""
    if data["kind"] == "stack":
        last = _medians(data["log10"]["relative"])[-1]
        if last is None:
            return "collapses", "random weights, to nothing"
        word = "collapses" if last < log10(THRESHOLD) else "holds"
        return word, f"random weights, relative residual 1e{last:.1f} at the end"
    full = next(curve for curve in data["curves"] if curve["variant"] == "full")
    last = _values(full["log10"])[-1]
    weights = f"{data['weights']} weights"
    if last is None:
        return "cannot be judged", f"{weights}, numbers are lost"
    word = "collapses" if last < THRESHOLD else "holds"
    said = f"{weights}, relative residual {last:.2g} at the end"
    if full["sink"] is not None:
        said += f", {full['without']['mean'][-1]:.2g} without token {full['sink']['position']}"
    return word, said
