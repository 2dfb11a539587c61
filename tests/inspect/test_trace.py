"""Which token made an output: terms add up, rules are the published ones, the true token wins."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from bench.double import Double
from typer.testing import CliRunner

import segre
from segre.checkpoint.runnable import load, open_model
from segre.cli.app import app
from segre.collapse.passes import Pass, RecordedLayer
from segre.collapse.record import record
from segre.collapse.variants import FULL
from segre.errors import SegreError
from segre.inspect.recorded import gradients, recorded
from segre.inspect.trace import (
    by_length,
    dense,
    normalised,
    relevance,
    rollout,
)
from support.zoo import save_tiny

FAMILIES = ("llama", "gpt2", "bert", "qwen3", "mixtral", "gpt-neox", "gemma2", "opt")
IDS = np.array([3, 17, 5, 5, 41, 8, 22, 9])


@pytest.mark.parametrize("name", FAMILIES)
def test_terms_add_up_to_the_output(name: str, tmp_path: Path) -> None:
    folder = save_tiny(name, tmp_path / "model")
    done = record(load(folder), IDS, FULL)
    rng = np.random.default_rng(0)
    target = rng.standard_normal(done.output.shape)
    terms = (done.pull(target) * done.X).sum() + (target * done.constant).sum()
    assert terms == pytest.approx((target * done.output).sum(), rel=1e-12)
    split = by_length(done, target)
    assert np.allclose(split.sum(axis=0), (done.pull(target) * done.X).sum(axis=-1), rtol=1e-11)
    for target_place in ("-1", "2", "3"):
        found = segre.trace(folder, length=8, target=target_place)
        assert found.error < 1e-11
        total = found.scores["operator"].sum() + found.constant
        assert total == pytest.approx(found.target, rel=1e-11)
        assert np.allclose(found.lengths.sum(axis=0), found.scores["operator"], atol=1e-11)
        assert found.scores["rollout"].sum() == pytest.approx(1)


def test_the_dense_operator_is_the_operator_and_not_the_jacobian(tmp_path: Path) -> None:
    folder = save_tiny("distilbert", tmp_path / "model")
    done = record(load(folder), IDS[:4], FULL)
    T = dense(done, 1 << 30)
    again = (T @ done.X.reshape(-1)).reshape(done.X.shape) + done.constant
    assert np.abs(again - done.output).max() < 1e-12 * np.abs(done.output).max()
    seen = recorded(load(folder), IDS[:4])
    seed = np.random.default_rng(1).standard_normal(done.output.shape)
    back = gradients(seen, seed.T, np.float64).streams[0]
    frozen = done.pull(seed)
    assert np.allclose(frozen.reshape(-1), T.T @ seed.reshape(-1))
    assert np.linalg.norm(frozen - back) > 0.1 * np.linalg.norm(back)
    with pytest.raises(SegreError, match="use fewer tokens"):
        dense(done, 1000)


def test_relevance_is_the_published_rule(tmp_path: Path) -> None:
    """On a random BERT: gradients of torch, and the rule of the paper written out."""
    folder = save_tiny("bert-labels", tmp_path / "model")
    model = transformers.BertForSequenceClassification.from_pretrained(
        folder, attn_implementation="eager"
    )
    seen = recorded(open_model(folder), IDS)
    with Double():
        model = model.double().eval()
        out = model(torch.tensor(IDS)[None], output_attentions=True)
        for attention in out.attentions:
            attention.retain_grad()
        out.logits[0, 1].backward()
    R = np.eye(len(IDS))
    for attention in out.attentions:
        cam = (attention.grad[0] * attention[0]).clamp(min=0).mean(dim=0).detach().numpy()
        R = R + cam @ R
    seed = np.zeros_like(seen.outputs)
    seed[1, 0] = 1
    mine = relevance(list(seen.patterns), gradients(seen, seed, np.float64).patterns)
    assert np.abs(mine - R).max() < 1e-9


def test_rows_of_zeros_are_defined() -> None:
    found = normalised(np.array([[1.0, 0, 0], [0.5, 1.5, 0], [0, 0, 1.0]]))
    assert np.array_equal(found[0], [0, 0, 0])
    assert np.array_equal(found[2], [0, 0, 0])
    assert found[1].sum() == pytest.approx(1)


def test_a_distractor_that_is_attended_but_not_read() -> None:
    """One layer: most attention goes to a token whose values are zero; another is read."""
    right = {"rollout": 0, "relevance": 0, "operator": 0}
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, d, true, loud = 6, 8, 2, 4
        X = rng.standard_normal((n, d))
        X[loud, :4] = 0  # values read the first four channels
        P = np.full((1, n, n), 0.22 / (n - 1))
        P[..., loud] = 0.78
        X[[t for t in range(n) if t not in (true, loud)], :4] *= 0.01
        W_V = np.eye(d, 4)[None]
        W_O = rng.standard_normal((1, 4, d))
        layer = RecordedLayer(P, W_V, W_O)
        done = Pass(X, (layer,), layer.apply(X))
        target = np.zeros((n, d))
        target[0] = done.output[0]
        terms = (done.pull(target) * X).sum(axis=-1)
        gradient = (target[0] @ (X @ W_V[0] @ W_O[0]).T)[None, None].repeat(n, axis=1)
        scores = {
            "rollout": rollout([P])[0] - np.eye(n)[0] / 2,
            "relevance": normalised(relevance([P], [gradient]))[0],
            "operator": terms,
        }
        for way, values in scores.items():
            right[way] += int(np.argmax(values) == true)
    assert right == {"rollout": 0, "relevance": 200, "operator": 200}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--target", "x"), "is not allowed"),
        (("--target", "99"), "only 64 tokens|only 32 tokens"),
        (("--target", "1:99"), "only 61 tokens"),
        (("--dense", "operator.txt"), "operator.txt"),
        (("--text", "missing.txt"), "cannot be read"),
    ],
)
def test_bad_input_is_one_line(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    folder = save_tiny("gpt2", tmp_path / "model")
    run = CliRunner().invoke(app, ["model", "trace", str(folder), *more])
    assert isinstance(run.exception, SegreError)
    assert any(one in str(run.exception) for one in said.split("|"))


def test_every_format(tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path / "model")
    line = ["model", "trace", str(folder), "--length", "8"]
    operator = tmp_path / "T.npy"
    done = CliRunner().invoke(app, [*line, "--dense", str(operator), "--json"])
    document = json.loads(done.stdout)
    assert set(document["scores"]) == {"rollout", "relevance", "operator", "gradient"}
    assert np.load(operator).shape == (8 * 24, 8 * 24)
    shown = CliRunner().invoke(app, line).stdout
    assert "frozen operator" in shown
    found = segre.trace(folder, length=8)
    assert len(found.to_pandas()) == 8
    assert "Contributions of tokens" in found._repr_html_()
    bert = segre.trace(save_tiny("bert", tmp_path / "bert"), length=8)
    assert bert.output is None
    with pytest.raises(SegreError, match="has no logits"):
        segre.trace(tmp_path / "bert", length=8, target="1:3")
