"""What is odd is found where it is: planted spikes, sinks, dead heads; nothing in random models."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from bench.double import Double
from typer.testing import CliRunner

import segre
from segre.checkpoint.inputs import shortened
from segre.checkpoint.runnable import open_model
from segre.cli.app import app
from segre.errors import SegreError
from segre.fields import Real
from segre.inspect.diagnose import require_finite
from segre.inspect.interventions import Intervention
from segre.inspect.measures import MEASURES
from segre.inspect.measures.heads import SINK
from segre.inspect.measures.heads import sinks as attended
from segre.inspect.measures.streams import participation
from segre.inspect.recorded import gradients, recorded
from segre.transformer.layers import root_mean_square
from support.checkpoints import minilm, rewritten, save_tokenizer, smollm2
from support.zoo import save_tiny

FAMILIES = ("llama", "gpt2", "bert-mlm", "qwen3", "mixtral", "gpt-neox", "gemma2", "opt")
IDS = np.array([3, 17, 5, 5, 41, 8, 22, 9, 30, 12])


def keys(found) -> set[str]:
    return {one.measure for one in found.findings}


@pytest.mark.parametrize("name", FAMILIES)
def test_streams_patterns_and_gradients_are_those_of_the_library(name: str, tmp_path: Path) -> None:
    folder = save_tiny(name, tmp_path / "model")
    seen = recorded(open_model(folder), IDS)
    kind = transformers.AutoConfig.from_pretrained(folder).architectures[0]
    model = getattr(transformers, kind).from_pretrained(folder, attn_implementation="eager")
    model.set_experts_implementation("eager")
    with Double():
        model = model.double().eval()
        words = torch.tensor(IDS)[None]
        out = model(words, output_attentions=True, output_hidden_states=True)
        states = out.hidden_states
        for mine, theirs in zip(seen.streams[:-1], states[:-1], strict=True):
            assert np.abs(mine - theirs[0].detach().numpy()).max() < 1e-6
        for layer, theirs in zip(seen.layers, out.attentions, strict=True):
            assert np.abs(layer.patterns - theirs[0].detach().numpy()).max() < 1e-6
        logits = out.logits[0]
        assert np.abs(seen.outputs.T - logits.detach().numpy()).max() < 1e-6
        if seen.loss is not None:
            loss = torch.nn.functional.cross_entropy(logits[:-1], words[0, 1:])
            assert seen.loss == pytest.approx(loss.item(), rel=1e-6)
        seed = np.random.default_rng(0).standard_normal(seen.outputs.shape)
        (logits * torch.tensor(seed.T)).sum().backward(inputs=list(states[:-1]))
        back = gradients(seen, seed, np.float64)
        for mine, theirs in zip(back.streams[:-1], states[:-1], strict=True):
            grad = theirs.grad[0].numpy()
            assert np.abs(mine - grad).max() < 1e-6 * np.abs(grad).max()


def test_a_planted_spike_is_found_where_it_is(tmp_path: Path) -> None:
    def plant(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "2":
            w["b_down"][7] = 900.0

    one = save_tiny("gpt2", tmp_path / "one")
    found = segre.diagnose(rewritten(one, tmp_path / "two", plant), length=16)
    spikes = [x for x in found.findings if x.measure == "spikes"]
    assert {x.channel for x in spikes} == {7}
    assert all("depths 2 to 3" in x.what or x.depth in (2, 3) for x in spikes)
    assert spikes[0].size == pytest.approx(900, rel=0.02)


def test_a_set_number_is_found_exactly(tmp_path: Path) -> None:
    model = open_model(save_tiny("llama", tmp_path / "one"))
    seen = recorded(model, IDS, (), Intervention.read(["2:4:11=5000"]))
    spikes = next(m for m in MEASURES if m.key == "spikes")
    found = list(spikes.find(seen, spikes.of(seen)))
    assert [(one.token, one.channel) for one in found] == [(4, 11)]
    assert "(depths 2–3)" in found[0].what
    assert (found[0].start, found[0].depth) == (2, 3)
    assert seen.streams[2][4, 11] == 5000


def test_a_spike_in_two_channels_makes_tokens_alike() -> None:
    """After RMSNorm: cosine .9997 and participation 2.00, as capabilities.md has it."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((64, 512))
    X[:, [3, 77]] = 1000.0
    spec = segre.architecture("llama/d=512/heads=2/ff=2/vocab=3/t=64")
    out = root_mean_square(Real(), spec, {}, "norm", X.T[None], 512)[0].T
    unit = out / np.linalg.norm(out, axis=1, keepdims=True)
    cosine = (np.square(unit.sum(axis=0)).sum() - 64) / (64 * 63)
    assert cosine == pytest.approx(0.9997, abs=1e-4)
    assert participation(out[0]) == pytest.approx(2.0, abs=0.01)


def test_a_planted_sink_and_a_dead_head(tmp_path: Path) -> None:
    def plant(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "embed":
            w["positions"][:, 0] = 0
            w["positions"][0, 0] = 60.0  # the first token stands out
        if part == "2":
            w["W_K"][1], w["W_Q"][1] = 0, 0
            w["W_K"][1, 0, 0, 0] = 3.0  # and head 2 asks for it
            w["b_Q"][1, 0, 0, 0] = 20.0
            w["W_O"][2] = 0  # head 3 writes nothing

    one = save_tiny("gpt2", tmp_path / "one")
    found = segre.diagnose(rewritten(one, tmp_path / "two", plant), length=24)
    sinks = [x for x in found.findings if x.measure == "sinks" and x.token == 0]
    assert (2, 2) in sinks[0].heads
    dead = [x for x in found.findings if x.measure == "writes"]
    assert dead[0].heads == ((2, 3),)


def test_nothing_is_found_in_random_models() -> None:
    specs = ("gpt2", "llama", "bert", "qwen3", "gemma2")
    for seed in range(100):
        spec = f"{specs[seed % 5]}/d=16/layers=3/heads=4/ff=24/vocab=99/t=32"
        spec = spec if seed % 5 in (0, 2) else spec.replace("heads=4", "heads=4/head=4")
        assert not segre.diagnose(spec, length=24, seed=seed).findings, (spec, seed)


def test_minilm(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text(VENICE)
    found = segre.diagnose(minilm(), text=text, control=True)
    spikes = found.values["spikes"]
    assert spikes.max() == pytest.approx(52.5, rel=0.01)
    model = open_model(minilm())
    seen = recorded(model, shortened(model, text, 1, 64).batches[0][0])
    depth = int(spikes.argmax())
    place = np.unravel_index(np.abs(seen.streams[depth]).argmax(), seen.streams[depth].shape)
    assert place == (0, 99)  # token, channel
    assert found.values["contraction"].max() == pytest.approx(3.46, abs=0.02)
    sinks = found.values["sinks"] > 0.3
    assert [int(n) for n in sinks.sum(axis=1)][2:4] == [11, 11]
    assert keys(found) >= {"sinks", "contraction"}
    assert found.control_findings == 0
    assert not seen.predicts
    assert found.loss is None


def test_interventions_do_what_they_say(tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path / "model")
    model = open_model(folder)
    plain = recorded(model, IDS)
    gone = recorded(model, IDS, (), Intervention.read([], ["2.3", "mlp:1"]))

    def ablate(part: str, w: dict[str, np.ndarray]) -> None:
        if part == "2":
            w["W_O"][1, 0] = 0  # head 3: the first of the second key-value head
        if part == "1":
            w["W_down"][:] = 0

    other = recorded(open_model(rewritten(folder, tmp_path / "gone", ablate)), IDS)
    assert np.allclose(gone.outputs, other.outputs, atol=1e-12)
    assert not np.allclose(gone.outputs, plain.outputs, atol=1e-3)
    median = recorded(model, IDS, (), Intervention.read(["1:2:5=median"]))
    assert median.streams[1][2, 5] == np.median(plain.streams[1][:, 5])
    assert np.array_equal(median.streams[0], plain.streams[0])
    found = segre.diagnose(folder, settings=["1:2:5=0"], ablations=["2.3"], length=10)
    assert [one.what for one in found.effects][:2] == ["as it is", "set 1:2:5=0, ablate 2.3"]
    assert len(found.effects) == 2 + 3 + 1
    assert found.effects[0].apart == 0 < found.effects[1].apart


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--set", "1:2=3"), "is not allowed"),
        (("--set", "9:0:0=1"), "depth 9 does not exist; allowed: 0 to 3"),
        (("--set", "1:0:0=nan"), "is neither a number"),
        (("--ablate", "4.1"), "no such layer"),
        (("--ablate", "1.9"), "no such head"),
        (("--text", "missing.txt"), "cannot be read"),
    ],
)
def test_bad_input_is_one_line(more: tuple[str, ...], said: str, tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path / "model")
    run = CliRunner().invoke(app, ["model", "diagnose", str(folder), *more])
    assert isinstance(run.exception, SegreError)
    assert said in str(run.exception)


def test_numbers_that_overflow_are_said_where(tmp_path: Path) -> None:
    seen = recorded(open_model(save_tiny("llama", tmp_path / "model")), IDS)
    streams = (*seen.streams[:2], np.full_like(seen.streams[2], np.inf), seen.streams[3])
    with pytest.raises(SegreError, match="not finite after layer 2"):
        require_finite(replace(seen, streams=streams))


def test_a_model_without_layers_of_patterns_is_refused_by_name() -> None:
    with pytest.raises(SegreError, match="does not take tokens"):
        segre.diagnose("softmax/d=4,4/a=2/t=3")


def test_text_and_json_and_cards(tmp_path: Path) -> None:
    folder = save_tiny("llama", tmp_path / "model")
    save_tokenizer(folder, [f"w{n}" for n in range(59)])
    text = tmp_path / "text.txt"
    text.write_text(" ".join(f"w{n % 59}" for n in range(40)))
    line = [
        "model",
        "diagnose",
        str(folder),
        "--text",
        str(text),
        "--length",
        "12",
        "--set",
        "1:0:3=99999",
    ]
    done = CliRunner().invoke(app, [*line, "--json"])
    document = json.loads(done.stdout)
    assert {one["key"] for one in document["measures"]} == {one.key for one in MEASURES}
    assert document["effects"][1]["what"] == "set 1:0:3=99999"
    shown = CliRunner().invoke(app, line).stdout
    assert all(one.title in shown for one in MEASURES)
    found = segre.diagnose(folder, text=text, length=12)
    assert found.words[:3] == ("[CLS]", "w0", "w1")
    assert "Entropy of attention" in found._repr_html_()
    assert list(found.to_pandas().columns)[:2] == ["measure", "finding"]


VENICE = (
    "The city of Venice, built on more than one hundred small islands in a lagoon in the Adriatic "
    "Sea, has no roads, just canals. Its merchants once sent ships to every harbour of the "
    "Mediterranean, and its glass makers on Murano kept their secrets for centuries. Today the "
    "water rises more often than it used to, and engineers have closed the lagoon with mobile "
    "gates.\n"
)


@pytest.mark.slow
def test_smollm2(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The figures of capabilities.md, section 4."""
    folder, _ = smollm2(tmp_path_factory)
    text = tmp_path / "text.txt"
    text.write_text(VENICE)
    found = segre.diagnose(folder, text=text, control=True)
    assert found.control["spikes"].max() < 20
    assert found.control["sinks"].max() < 0.3
    assert found.control["contraction"].max() == pytest.approx(1.3, abs=0.05)
    assert found.control_findings == 1  # its gradient grows as that of the trained one does
    spikes = {one.token: one for one in found.findings if one.measure == "spikes"}
    large = spikes[0]
    assert (large.channel, large.depth, large.text) == (507, 12, "The")
    assert large.size == pytest.approx(22_552, rel=0.01)
    assert found.values["spikes"].max() == pytest.approx(13_156, rel=0.01)
    assert "(depths 12–28)" in large.what
    assert large.start == 12
    assert (spikes[17].channel, spikes[17].depth) == (507, 3)
    assert spikes[17].size == pytest.approx(682, rel=0.01)
    assert found.values["stable-rank"][12:21] == pytest.approx(1.0, abs=0.01)
    sinks = (found.values["sinks"] > 0.3).sum(axis=1)
    assert sinks[:2].tolist() == [0, 0]
    assert sinks[14] == 9
    assert found.values["contraction"].max() == pytest.approx(3.2, abs=0.05)

    changed = segre.diagnose(folder, text=text, length=48, settings=["12:0:507=median"])
    before, after, *controls = changed.effects
    assert (before.loss, before.sinks) == (pytest.approx(3.602, abs=2e-3), 204)
    assert (after.loss, after.sinks) == (pytest.approx(12.205, abs=0.01), 136)
    assert all(one.loss == pytest.approx(3.6, abs=0.05) for one in controls)
    model = open_model(folder)
    ids = shortened(model, text, 1, 48).batches[0][0]
    for setting, loss, sinks in (
        ("12:0:507=11276", 4.212, 195),  # halved
        ("12:20:507=median", 3.602, 204),
    ):
        seen = recorded(model, ids, (), Intervention.read([setting]))
        assert seen.loss == pytest.approx(loss, abs=5e-3), setting
        assert int((attended(seen) > SINK).sum()) == sinks, setting
