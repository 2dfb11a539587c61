"""What changed between two checkpoints: planted changes are found, moves are not."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM
from typer.testing import CliRunner

import segre
from segre.checkpoint.commands import move
from segre.checkpoint.inputs import read_text
from segre.checkpoint.runnable import load
from segre.cli.app import app
from segre.errors import SegreError
from segre.report.page.render import write_answer
from segre.report.png import plot as draw
from support.checkpoints import padded, rewritten, save_tokenizer
from support.terminal import run
from support.zoo import NAMES, save_tiny, tiny

Tensors = dict[str, np.ndarray]
ADAPTED = ("W_V", "W_up")


def adapter(rank: int, names: tuple[str, ...] = ADAPTED):
    """A change of low rank, as LoRA leaves it."""

    def change(part: str, w: Tensors) -> None:
        rng = np.random.default_rng(int.from_bytes(part.encode()))
        for name in names:
            if name in w and part not in ("embed", "head"):
                flat = w[name].reshape(-1, w[name].shape[-1])
                left, right = (rng.standard_normal((n, rank)) for n in flat.shape)
                size = 0.1 * float(flat.std()) / rank**0.5
                w[name] = w[name] + (size * left @ right.T).reshape(w[name].shape)

    return change


def noise(part: str, w: Tensors) -> None:
    """A small change of everything."""
    rng = np.random.default_rng(int.from_bytes(part.encode()))
    for name, value in w.items():
        w[name] = value + 0.02 * float(value.std()) * rng.standard_normal(value.shape)


def test_latents_that_were_moved_did_not_change(tmp_path: Path) -> None:
    one = save_tiny("deepseek-v3", tmp_path / "one")
    move(one, two := tmp_path / "two", seed=5, report=False)
    found = segre.diff(one, two)
    assert found.changes.moved
    assert not found.changed


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter_is_seen_in_every_family(name: str, tmp_path: Path) -> None:
    one = save_tiny(name, tmp_path / "one")
    two = rewritten(one, tmp_path / "two", adapter(2))
    found = segre.diff(one, two)
    assert found.low_rank == 2
    assert {update.name for update in found.changed} <= {*ADAPTED}
    moved = {piece for (_, piece), change in found.changes.grid.items() if change.raw}
    assert moved <= {"VO", "MLP"}
    assert 0 < found.value <= found.changes.total.relative_raw
    assert not found.changes.tokens


@pytest.mark.parametrize("name", ["llama", "gpt2", "bert-mlm", "qwen3", "mixtral", "electra"])
def test_a_moved_copy_is_no_change_and_a_moved_neighbour_as_near(name: str, tmp_path: Path) -> None:
    one = save_tiny(name, tmp_path / "one")
    move(one, tmp_path / "moved", seed=1)
    found = segre.diff(one, tmp_path / "moved")
    assert found.value < 1e-6
    assert found.gauge > 1 - 1e-9
    assert not found.changed
    assert not [*found.changes.heads, *found.changes.units, *found.changes.tokens]

    near = rewritten(one, tmp_path / "near", noise)
    move(near, tmp_path / "far", seed=2)
    here, there = segre.diff(one, near), segre.diff(one, tmp_path / "far")
    assert not here.changes.moved
    assert there.changes.moved
    assert there.value < 1.2 * here.value
    assert here.low_rank is there.low_rank is None
    assert there.outputs.mean == pytest.approx(here.outputs.mean, rel=1e-3)


def test_a_moved_adapter_keeps_its_rank(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    two = rewritten(one, tmp_path / "two", adapter(1, ("W_Q", "W_V")))
    move(two, tmp_path / "moved", seed=3)
    found = segre.diff(one, tmp_path / "moved")
    assert found.changes.moved
    assert found.low_rank == 1
    assert {update.name for update in found.changed} == {"W_Q", "W_V"}


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3"])
def test_what_was_not_trained_stays_through_a_move(name: str, tmp_path: Path) -> None:
    """An adapter on values and what units write changes neither scores nor gains."""
    one = save_tiny(name, tmp_path / "one")
    two = rewritten(one, tmp_path / "two", adapter(2, ("W_V", "W_down")))
    move(two, tmp_path / "moved", seed=4)
    found = segre.diff(one, tmp_path / "moved")
    assert found.changes.moved
    for (_, piece), change in found.changes.grid.items():
        if piece not in ("VO", "MLP"):
            assert change.relative < 1e-5, piece


def test_the_token_head_and_unit_that_changed_come_first(tmp_path: Path) -> None:
    def change(part: str, w: Tensors) -> None:
        if part == "embed":
            w["tokens"][:, 17] *= 1.5
        if part == "2":
            w["W_O"][1, 0] *= 1.3
            w["W_down"][:, 5] *= 1.2

    one = save_tiny("llama", tmp_path / "one")
    save_tokenizer(one, [f"w{n}" for n in range(59)])
    found = segre.diff(one, rewritten(one, tmp_path / "two", change))
    assert [(spot.number, spot.text) for spot in found.changes.tokens] == [(17, "w15")]
    assert [(spot.part, spot.number) for spot in found.changes.heads] == [("2", 3)]
    assert [(spot.part, spot.number) for spot in found.changes.units] == [("2", 6)]
    assert found.changes.heads[0].distance == pytest.approx(0.3, rel=1e-5)


def test_forms_of_files_do_not_matter(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    same = segre.diff(one, one)
    assert same.value == 0
    draw(same, tmp_path / "same.png")  # warnings are errors
    tiny("llama").bfloat16().save_pretrained(tmp_path / "half", max_shard_size="20KB")
    half = segre.diff(one, tmp_path / "half")
    assert 0 < half.value < 2**-8
    assert not half.changed
    assert half.config == {}
    more = padded(one, tmp_path / "more", 3)
    assert segre.diff(one, more).value == 0
    assert segre.diff(one, more).common == 61
    model = tiny("llama")
    named = {key.removeprefix("model."): value for key, value in model.state_dict().items()}
    weights = {key: value.detach().numpy() for key, value in named.items()}
    assert segre.diff(one, (weights, json.loads((one / "config.json").read_text()))).value == 0


def test_outputs_on_a_text_are_those_of_the_library(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    two = rewritten(one, tmp_path / "two", noise)
    save_tokenizer(one, [f"w{n}" for n in range(59)])
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{n * n % 59}" for n in range(40)))
    found = segre.diff(one, two, text=text, inputs=2, length=16)
    assert (found.outputs.count, found.outputs.length) == (2, 16)
    words = read_text(load(one), text, 2, 16).batches[0]
    assert found.outputs.losses is not None
    for loss, folder in zip(found.outputs.losses, (one, two), strict=True):
        model = LlamaForCausalLM.from_pretrained(folder).double()
        ids = torch.tensor(words)
        assert loss == pytest.approx(model(ids, labels=ids).loss.item(), rel=1e-6)


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    other = save_tiny("gpt2", tmp_path / "other")
    text = tmp_path / "text.txt"
    text.write_text("w1 w2 w3 w4 w5 w6")
    with pytest.raises(SegreError, match="different architectures"):
        segre.diff(one, other)
    with pytest.raises(SegreError, match="cannot read a tokenizer"):
        segre.diff(one, one, text=text)
    two = save_tiny("llama", tmp_path / "two")
    save_tokenizer(one, [f"w{n}" for n in range(59)])
    save_tokenizer(two, [f"w{n}" for n in range(58, -1, -1)])
    with pytest.raises(SegreError, match="different tokenizers"):
        segre.diff(one, two, text=text)

    spoilt = tiny("llama")
    with torch.no_grad():
        spoilt.model.layers[1].mlp.up_proj.weight[0, 0] = float("nan")
    spoilt.save_pretrained(tmp_path / "spoilt")
    refused = run("diff", one, tmp_path / "spoilt")
    assert refused.returncode == 2
    assert "layers.1.mlp.up_proj" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1


def test_every_format_says_the_same(tmp_path: Path) -> None:
    one = save_tiny("llama", tmp_path / "one")
    two = rewritten(one, tmp_path / "two", adapter(2))
    found = segre.diff(one, two)
    done = CliRunner().invoke(app, ["diff", str(one), str(two), "--json"])
    document = json.loads(done.stdout)
    assert document["whole"]["distance"] == found.value
    assert document["low_rank"] == 2
    done = CliRunner().invoke(app, ["diff", str(one), str(two), "--csv"])
    rows = list(csv.DictReader(io.StringIO(done.stdout)))
    assert len(rows) == len(found.changes.grid)
    page, plot = tmp_path / "page.html", tmp_path / "plot.png"
    done = CliRunner().invoke(
        app, ["diff", str(one), str(two), "-o", str(page), "--plot", str(plot)]
    )
    assert "rank at most 2 (W_V, W_up)" in " ".join(done.stdout.split())
    write_answer(found, tmp_path / "again.html")
    draw(found, tmp_path / "again.png")
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("page.html", "plot.png"))
    assert "Relative distance by layer and piece" in page.read_text()
    assert "low rank" in found._repr_html_()


def frozen(part: str, w: Tensors) -> None:
    """Another change of every matrix and table, except those of the second layer."""
    if part != "2":
        noise(
            part, matrices := {name: w[name] for name in w if name[:2] == "W_" or name == "tokens"}
        )
        w |= matrices


def some_rows(part: str, w: Tensors) -> None:
    """Three tokens, drawn afresh."""
    if part == "embed":
        rng = np.random.default_rng(3)
        w["tokens"][:, [3, 17, 40]] = w["tokens"].std() * rng.standard_normal((24, 3))


def retrained_table(part: str, w: Tensors) -> None:
    """A small change of the table of tokens."""
    if part == "embed":
        noise(part, table := {"tokens": w["tokens"]})
        w |= table


def gains(part: str, w: Tensors) -> None:
    """A small change of the gains of two layers."""
    if part in ("1", "2"):
        noise(part, own := {name: w[name] for name in w if name.endswith(".gain")})
        w |= own


@pytest.mark.parametrize(
    ("seed", "name"), [*enumerate(["llama", "gpt2", "qwen3", "gpt-neox", "bert-mlm"])]
)
def test_a_moved_change_is_the_change_that_was_made(name: str, seed: int, tmp_path: Path) -> None:
    """The gauge is fitted to what did not change: the answer does not depend on the move."""
    one = save_tiny(name, tmp_path / "one")
    edits = {
        "up and down": adapter(1, ("W_up", "W_down")),
        "values and outputs": adapter(2, ("W_V", "W_Q", "W_K")),
        "rows": some_rows,
        "table": retrained_table,
        "gains": gains,
    }
    for what, change in edits.items():
        if (what, name) == ("gains", "bert-mlm"):  # its tables follow the gains of the head
            continue
        two = rewritten(one, tmp_path / f"{what}{seed}", change)
        move(two, tmp_path / f"{what}{seed}, moved", seed=seed, report=False)
        here, there = segre.diff(one, two), segre.diff(one, tmp_path / f"{what}{seed}, moved")
        assert (here.changes.moved, there.changes.moved) == (False, True), what
        assert here.value == pytest.approx(there.value, rel=0.1), what
        both = [{(u.part, u.name): u.rank for u in found.changed} for found in (here, there)]
        assert both[0] == both[1], what
        assert here.others == there.others, what
        assert here.low_rank == there.low_rank, what


@pytest.mark.parametrize("name", ["llama", "gemma"])
def test_a_layer_that_was_frozen_is_not_named(name: str, tmp_path: Path) -> None:
    one = save_tiny(name, tmp_path / "one")
    two = rewritten(one, tmp_path / "two", frozen)
    move(two, tmp_path / "moved", seed=5, report=False)
    found = segre.diff(one, tmp_path / "moved")
    assert {update.part for update in found.changed} == {"1", "3"}
    assert "tables" in found.others


def test_rotary_rows_in_another_order_are_a_change_of_queries_and_keys(tmp_path: Path) -> None:
    def change(part: str, w: Tensors) -> None:
        for key in {"W_Q", "W_K"} & {*w}:
            w[key] = w[key][:, :, ::-1].copy()

    one = save_tiny("llama", tmp_path / "one")
    found = segre.diff(one, rewritten(one, tmp_path / "two", change))
    assert {update.name for update in found.changed} == {"W_Q", "W_K"}
    assert all(spot.distance > 0.1 for spot in found.changes.heads)
    assert len(found.changes.heads) == 12
    assert found.outputs.mean > 1e-3
