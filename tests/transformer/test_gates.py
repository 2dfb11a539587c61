"""Gates of attention: what they compute, which symmetries they leave, and who notices them."""

import random

import numpy as np
import pytest
from bench.random_specs import random_transformer

from segre import certify, dimension, explain, verify
from segre.errors import SpecError, UnluckyError
from segre.fields.real import Real
from segre.kernel.document import sha256
from segre.models import architecture
from segre.network import forward
from segre.theorems import apply
from segre.transformer.spec import Transformer
from segre.transformer.tensors import tensors

SMALL = "transformer/d=4/heads=2/kv=1/head=2/{}/bias=qkv/causal=true/t=3"


def _named(spec: Transformer, vector: np.ndarray) -> dict[str, np.ndarray]:
    return {
        name: vector[slot.range].reshape(slot.shape)
        for (part, name), slot in tensors(spec).items()
        if part == "1"
    }


@pytest.mark.parametrize("gate", ["head", "element"])
def test_a_gate_is_a_factor_of_what_each_head_mixes(gate: str) -> None:
    rng = np.random.default_rng(0)
    spec, bare = (Transformer.parse(SMALL.format(f"gate={g}")) for g in (gate, "none"))
    vector = rng.normal(size=spec.parameters)
    w = _named(spec, vector)
    x = rng.normal(size=(spec.d, spec.t))
    out = x.copy()
    for q in range(2):  # head by head: the other one writes nothing
        alone = np.zeros(bare.parameters)
        for (_, name), slot in tensors(bare).items():
            value = w[name].copy()
            if name == "W_O":
                value[:, 1 - q] = 0
                identity = np.zeros_like(value)
                identity[0, q, :2] = np.eye(2)
                value = identity  # shows what it mixes
            alone[slot.range] = value.ravel()
        mixed = (forward(Real(), bare, alone, x[None])[0] - x)[:2]
        sigma = 1 / (1 + np.exp(-(w["W_G"][0, q] @ x + w["b_G"][0, q])))
        out += w["W_O"][0, q] @ (mixed * sigma)
    assert np.allclose(forward(Real(), spec, vector, x[None])[0], out, atol=1e-12)


def test_a_gate_of_one_entry_is_the_gate_of_its_head() -> None:
    one, other = (
        Transformer.parse(f"transformer/d=3/dv=1/gate={g}/t=2") for g in ("head", "element")
    )
    assert one == other
    assert one.digest == other.digest


def test_gates_do_not_go_with_latents() -> None:
    with pytest.raises(SpecError, match="gate cannot be combined with latent attention"):
        Transformer.parse("transformer/d=4/kvrank=2/gate=head/t=2")


@pytest.mark.parametrize("seed", range(24))
def test_bounds_hold_for_random_designs(seed: int) -> None:
    """Bounds are in order; that generators are in the kernel is checked when they are counted."""
    while True:
        chosen = random_transformer(seed).document()
        chosen["gate"] = random.Random(seed).choice(["head", "element"])
        try:
            spec = Transformer.from_mapping(chosen)
        except SpecError:
            seed += 1000
            continue
        if spec.parameters <= 120:
            break
        seed += 1000
    try:
        found = dimension(spec)
    except UnluckyError:
        return
    assert found.lower is None or found.upper is None or found.lower <= found.upper


def test_no_theorem_covers_gates() -> None:
    for gate in ("head", "element"):
        text = f"llama/d=64/layers=2/heads=4/ff=96/vocab=100000/eps=1e-5/gate={gate}/t=900"

        assert apply(architecture(text)) is None


def test_explain_says_what_a_gate_removes() -> None:
    found = explain("transformer/d=6/heads=2/head=3/gate=element/bias=attn/t=3")
    (choice,) = [c for c in found.choices if c.name.startswith("a gate")]
    assert choice.change["VO"] == 2 * (9 - 3)
    assert choice.change["norms and biases"] == 2 * 3  # value biases
    assert any("mixture of experts" in note for note in found.finding.notes)


@pytest.mark.parametrize("gate", ["head", "element"])
def test_certificates_know_their_gates(gate: str) -> None:
    spec = f"transformer/d=3/heads=2/head=2/gate={gate}/bias=qkv/t=2"
    document = certify(spec)
    assert verify(document).valid
    for other in ("none", "head", "element"):
        if other != gate:
            body = {k: v for k, v in document.items() if k != "checksum"}
            body["spec"] = {**document["spec"], "gate": other}
            assert not verify({**body, "checksum": sha256(body)}).valid


LIGHTNING = "transformer/d=3/heads=2/head=2/attn=lightning/gate=element/residual=false/causal=true"


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ("feature=silu/mixnorm=true", 60),
        ("feature=silu/mixnorm=true/gain=false", 60),
    ],
)
def test_lightning_layers_of_minimax(more: str, value: int) -> None:
    """Silu on queries, keys and values leaves nothing but gains against the out map."""
    found = dimension(f"{LIGHTNING}/{more}/t=3")
    assert (found.value, found.status) == (value, "proved")
    assert found.parameters == (60 if "gain=false" in more else 64)


def test_features_and_the_norm_of_what_heads_mix() -> None:
    rng = np.random.default_rng(1)
    spec = Transformer.parse(f"{LIGHTNING}/feature=silu/mixnorm=true/eps=1e-6/t=4")
    vector = rng.normal(size=spec.parameters)
    w, x = _named(spec, vector), rng.normal(size=(3, 4))

    def silu(z: np.ndarray) -> np.ndarray:
        return np.asarray(z / (1 + np.exp(-z)))

    mixed = []
    for h in range(2):
        Q, K, V = (silu(w[f"W_{name}"][h, 0] @ x) for name in "QKV")
        mixed.append(V @ np.triu(K.T @ Q))
    whole = np.concatenate(mixed)
    whole = whole / np.sqrt((whole**2).mean(axis=0) + 1e-6) * w["normo.gain"].reshape(-1, 1)
    whole = whole / (1 + np.exp(-(w["W_G"].reshape(-1, 3) @ x)))
    out = w["W_O"][:, 0].transpose(1, 0, 2).reshape(3, -1) @ whole
    assert np.allclose(forward(Real(), spec, vector, x[None])[0], out, atol=1e-12)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("transformer/d=4/feature=silu/t=2", "feature needs attn=lightning"),
        ("transformer/d=4/attn=lightning/pos=rope/feature=silu/t=2", "feature needs"),
        ("transformer/d=4/mixnorm=true/t=2", "mixnorm needs gate=element"),
        ("transformer/d=4/attn=lightning/feature=silu/sinks=true/t=2", "sinks need"),
    ],
)
def test_choices_that_do_not_go_together(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        Transformer.parse(text)
