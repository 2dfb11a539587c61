"""Long sequences against the forward map, which is written once, over a field."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import segre
from segre.errors import SegreError, SpecError, UnsupportedError
from segre.fields import Real
from segre.network import forward, tensors
from segre.sequence.cost import cost
from segre.sequence.files import read_array, read_tensors, write_array
from segre.sequence.tensors import stack_of

STACKS = [
    "softmax/d=3,4,2/a=2/heads=2/dv=2/t=9",
    "lightning/d=3,4,2/a=2/heads=2/t=9",
    "fast/d=3,3/a=3/t=8",
    "linear/d=3,3/a=2/causal=true/t=8",
    "double/d=3,3,2/a=2/causal=true/t=8",
    "gapless/d=3,3/a=2/t=8",
    "softmax/d=3,3/a=2/bias=both/window=2/t=9",
    "mix/d=3,4,2/a=2/heads=softmax*2+lightning:decay=0.9,double/t=9",
    "mix/d=3,3/a=2/dv=2/heads=softmax:gate=element+lightning:gate=head*2/t=8",
    "mix/d=3,3/a=2/heads=softmax:kernel=2:stride=2+lightning:conv=shared:kernel=2/t=9",
    "mix/d=3,3/a=2/heads=fast:unit=none:kernel=2+softmax:conv=depthwise:kernel=3/t=9",
    "mix/d=3,3/a=2/heads=lightning:decay=learned*3/t=9",
    "mix/d=3,3,3/a=2/heads=lightning:decay=slopes*3,softmax:local=3/t=9",
]


def random_heads(rng: random.Random) -> str:
    """A mechanism with any options that go together."""
    name = rng.choice(["softmax", "lightning", "linear", "fast", "double", "gapless"])
    parts = [name]
    if name == "fast":
        parts += [f"order={2 * rng.randint(1, 2)}", f"unit={rng.choice(['none', 'sphere'])}"]
    if name in ("linear", "lightning"):
        parts += [f"feature={rng.choice(['square', 'exp', 'elu1'])}"]
    parts += [f"bias={rng.choice(['none', 'key', 'query', 'both'])}"]
    parts += [f"gate={rng.choice(['none', 'head', 'element'])}"]
    shape = rng.choice(["all", "causal", "window", "local", "decay", "conv"])
    if name == "gapless" and shape not in ("all", "conv"):
        shape = "all"
    match shape:
        case "causal":
            parts.append("causal")
        case "window" | "local":
            parts.append(f"{shape}={rng.randint(1, 4)}")
        case "decay":
            parts.append(f"decay={rng.choice(['0.9', '0.5', 'learned', 'slopes'])}")
        case "conv":
            parts.append(f"conv={rng.choice(['full', 'depthwise', 'shared'])}")
            parts += [f"kernel={rng.randint(1, 3)}", f"stride={rng.randint(1, 2)}"]
    return ":".join(parts) + f"*{rng.randint(1, 2)}"


def random_stack(seed: int) -> str:
    rng = random.Random(seed)
    depth = rng.randint(1, 3)
    widths = ",".join(str(rng.randint(1, 4)) for _ in range(depth + 1))
    heads = ",".join(
        "+".join(random_heads(rng) for _ in range(rng.randint(1, 2))) for _ in range(depth)
    )
    dv = rng.choice(["", "/dv=2"])
    return f"mix/d={widths}/a={rng.randint(2, 3)}/heads={heads}{dv}/t={rng.randint(4, 12)}"


def drawn(text: str, seed: int = 0, inputs: tuple[int, ...] = (2,)):
    spec = stack_of(text)
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal(spec.parameters) / 2
    for (_, name), slot in tensors(spec).items():
        if name.endswith("decay"):
            weights[slot.range] = rng.uniform(0.3, 1, slot.size)
    return spec, weights, rng.standard_normal((*inputs, spec.t, spec.width_in))


def apart(found, expected):
    """Weights and tokens are about 1: what is much smaller has been cancelled (gapless)."""
    return abs(found - expected).max() / max(1, abs(expected).max())


@pytest.mark.parametrize("text", [*STACKS, *map(random_stack, range(60))])
def test_attend_is_the_forward_map(text):
    spec, weights, X = drawn(text)
    right = forward(Real(), spec, weights, X.swapaxes(-1, -2)).swapaxes(-1, -2)
    for method in ("auto", "dense"):
        assert apart(segre.attend(spec, weights, X, method), right) < 1e-12
    assert apart(segre.attend(spec, weights, X, block=3), right) < 1e-12


@pytest.mark.parametrize("text", ["lightning/d=3,3,3/a=2/t=2", "fast/d=3,3/a=2/unit=none/t=2"])
def test_linear_and_dense_agree_on_more_tokens_than_the_spec_has(text):
    spec, weights, _ = drawn(text)
    X = np.random.default_rng(1).standard_normal((700, 3)) / 9
    dense = segre.attend(spec, weights, X, "dense")
    assert dense.shape == (700, spec.widths[-1])
    assert apart(segre.attend(spec, weights, X, "linear"), dense) < 1e-12
    assert apart(segre.attend(spec, weights, X.astype(np.float32)), dense) < 1e-4


def test_single_precision_stays_single():
    spec, weights, X = drawn(STACKS[0])
    assert segre.attend(spec, weights, X.astype(np.float32)).dtype == np.float32
    assert segre.attend(spec, weights.astype(np.float32), X).dtype == np.float64


def named(spec, weights):
    parts = {f"layer{n}.{name}": slot for (n, name), slot in tensors(spec).items()}
    return {name: weights[slot.range].reshape(slot.shape) for name, slot in parts.items()}


@pytest.mark.parametrize("text", STACKS)
def test_weights_in_every_form(text, tmp_path):
    spec, weights, X = drawn(text)
    right = segre.attend(text, weights, X)
    tensors = named(spec, weights)
    assert np.array_equal(segre.attend(text, tensors, X), right)
    save_file({k: np.ascontiguousarray(x) for k, x in tensors.items()}, tmp_path / "w.safetensors")
    np.savez(tmp_path / "w.npz", spec=np.array(str(spec)), **tensors)
    layers = [{} for _ in spec.widths[1:]]
    for name, array in tensors.items():
        number, rest = name.removeprefix("layer").split(".", 1)
        layers[int(number) - 1][rest] = array.tolist()
    document = {"spec": str(spec), "layers": layers}
    (tmp_path / "w.json").write_text(json.dumps(document))
    for file in ("w.safetensors", "w.npz", "w.json"):
        assert np.array_equal(segre.attend(text, tmp_path / file, X), right)


def test_weights_objects_and_fractions(tmp_path):
    text = "softmax/d=3,2/a=2/heads=2/t=4"
    X = np.ones((5, 3))
    weights = segre.Weights.random(text, seed=3)
    right = segre.attend(text, weights, X)
    weights.write(tmp_path / "w.npz")
    assert np.array_equal(segre.attend(text, str(tmp_path / "w.npz"), X), right)
    exact = segre.Weights.random(text, seed=3, exact=True)
    with pytest.raises(SegreError, match="fractions"):
        segre.attend(text, exact, X)
    exact.write(tmp_path / "w.json")
    rounded = [float(int(x.p) / int(x.q)) for x in exact.vector]
    found = segre.attend(text, tmp_path / "w.json", X)
    assert np.array_equal(found, segre.attend(text, rounded, X))


SPEC = "lightning/d=3,2/a=2/t=4"
WEIGHTS = np.ones(18)
X = np.ones((5, 3))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: segre.attend(SPEC, WEIGHTS, X[:, :2]), r"X has shape \(5, 2\)"),
        (lambda: segre.attend(SPEC, WEIGHTS, X[0]), "X has shape"),
        (lambda: segre.attend(SPEC, WEIGHTS, X[:0]), "X has shape"),
        (lambda: segre.attend(SPEC, WEIGHTS, X * np.nan), "X: 15 of 15 numbers are NaN"),
        (lambda: segre.attend(SPEC, WEIGHTS[:5], X), r"the spec requires \(18,\)"),
        (lambda: segre.attend(SPEC, WEIGHTS * np.inf, X), "weights: 18 of 18"),
        (lambda: segre.attend(SPEC, {"layer1.W_K": X}, X), "layer1.W_K has shape"),
        (lambda: segre.attend(SPEC, {"layer2.W_K": X}, X), "unknown tensor 'layer2.W_K'"),
        (lambda: segre.attend(SPEC, {}, X), "layer1.W_K is missing"),
        (lambda: segre.attend(SPEC, WEIGHTS, X, "fast"), "allowed: auto, dense, linear, band"),
        (lambda: segre.attend(SPEC, WEIGHTS, X, "band"), "lightning has no band form"),
        (lambda: segre.attend(SPEC, WEIGHTS, X, block=0), "block: 0"),
        (lambda: segre.attend(SPEC, WEIGHTS, X, memory=99), "5 tokens would need about"),
        (lambda: segre.attend(SPEC, 1e200 * WEIGHTS, X), "overflows float64"),
        (lambda: segre.attend(SPEC, WEIGHTS, 1e308 * X), "overflow float64"),
        (lambda: segre.attend(SPEC, segre.Weights.random("softmax/d=3,2/a=2/t=4"), X), "only t"),
        (lambda: segre.attend("softmax/d=3,2/a=2/kernel=3/t=4", np.ones(42), X[:2]), "kernel"),
        (lambda: segre.attend(SPEC, "w.pickle", X), "allowed: .npz, .json, .safetensors files"),
        (lambda: segre.attend(SPEC, "missing.npz", X), "No such file"),
        (lambda: segre.attend(SPEC, "missing.safetensors", X), "No such file"),
    ],
)
def test_bad_input_is_one_line(call, said):
    with pytest.raises(SegreError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_transformers_are_refused():
    with pytest.raises(UnsupportedError, match="supports only stacks of attention layers"):
        segre.attend("llama-3-8b", WEIGHTS, X)


def test_arrays_in_files(tmp_path):
    for name in ("y.npy", "y.safetensors"):
        for array in (X, np.arange(6, dtype=np.float32).reshape(2, 3)):
            write_array(tmp_path / name, array)
            found = read_array(tmp_path / name)
            assert found.dtype == array.dtype
            assert np.array_equal(found, array)
    assert set(load_file(tmp_path / "y.safetensors")) == {"Y"}
    with pytest.raises(SegreError, match=r"allowed: .npy and .safetensors"):
        write_array(tmp_path / "y.txt", X)
    with pytest.raises(SegreError, match="cannot write"):
        write_array(tmp_path / "nowhere" / "y.npy", X)


def hostile(folder: Path) -> dict[str, Path]:
    contents = {
        "empty.npy": b"",
        "text.npy": b"hello",
        "cut.npy": b"",
        "empty.safetensors": b"",
        "text.safetensors": b"hello hello hello",
        "long.safetensors": (1 << 62).to_bytes(8, "little") + b"{}",
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    np.save(folder / "whole.npy", X)
    (folder / "cut.npy").write_bytes((folder / "whole.npy").read_bytes()[:-8])
    np.save(folder / "objects.npy", np.array([{}, None]), allow_pickle=True)
    np.save(folder / "complex.npy", X + 1j)
    save_file({"A": X, "B": X}, folder / "two.safetensors")
    (folder / "folder.npy").mkdir()
    return {path.name: path for path in folder.iterdir() if path.name != "whole.npy"}


def test_hostile_files(tmp_path):
    for path in hostile(tmp_path).values():
        with pytest.raises(SegreError, match="input") as caught:
            read_array(path)
        assert "\n" not in str(caught.value)
    for name, text in {
        "a.json": "[]",
        "b.json": '{"layers": 3}',
        "c.json": '{"spec": "x", "layers": [3]}',
        "d.json": '{"layers": [{"W_K": [[1], [1, 2]]}]}',
        "e.npz": "no",
    }.items():
        (tmp_path / name).write_text(text)
        with pytest.raises(SegreError, match="weights"):
            read_tensors(tmp_path / name)


@pytest.mark.parametrize("text", [*STACKS, "llama-3-8b", "deepseek-v3", "bert-base-uncased"])
def test_costs_of_specs(text):
    found = cost(text, [64, 4096, 8192])
    assert found.tokens == (64, 4096, 8192)
    assert found.total(8192) > found.total(4096) > found.total(64)
    document = found.document()
    json.dumps(document)
    for one in document["costs"]:
        assert one["operations"] >= sum(x["operations"] + x["maps"] for x in one["parts"])
    for line in found.lines:
        assert line.bytes > 0
        assert line.operations > 0
        assert line.method != "dense" or line.operations == line.dense


def test_costs_are_known_numbers():
    keys = cost("llama-3-8b", 4096)
    assert keys.state(4096) == 32 * 8 * (128 + 128) * 4096  # what a cache of keys and values has
    parameters = segre.architecture("llama-3-8b").parameters
    maps = sum(line.maps for line in keys.lines) / 4096 + keys.rest
    assert 2 * (parameters - 128256 * 4096) * 0.999 < maps < 2 * parameters
    (line,) = cost("lightning/d=8,8/a=4/causal=true/t=2", 4096).lines
    assert (line.method, line.state) == ("linear", 4 * 8)
    assert cost("softmax/d=8,8/a=4/t=7").tokens == (7,)
    assert cost("softmax/d=8,8/a=4/t=7").state(7) is None
    for t in (0, -1, 2.5, "4k", True, []):
        with pytest.raises(SpecError, match="t:"):
            cost("softmax/d=8,8/a=4/t=7", t)
