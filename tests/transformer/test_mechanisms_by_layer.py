"""Layers of two mechanisms, decays, factors of skips: what they compute, and who notices them."""

from fractions import Fraction
from math import prod
from random import Random

import numpy as np
import pytest

from segre import certify, dimension, explain, verify
from segre.errors import SpecError, UnluckyError
from segre.fields.prime import Prime
from segre.fields.real import Real
from segre.kernel.document import sha256
from segre.kernel.graph import Rate
from segre.kernel.residues import Residues
from segre.models import architecture
from segre.network import forward
from segre.slope import Slope
from segre.symmetry.finite import discrete_symmetries
from segre.transformer.spec import Transformer
from segre.transformer.tensors import largest_stage, of_mlp, tensors

LIGHTNING = "gate=element/feature=silu/mixnorm=true"
MIXED = f"transformer/d=3/layers=2/heads=2/kv=1/head=2/causal=true/norm=rms/{LIGHTNING}"


def _transformer(text: str) -> Transformer:
    found = architecture(text)
    assert isinstance(found, Transformer)
    return found


def random_design(seed: int, most: int = 150) -> Transformer:
    """Layers of either mechanism, with whatever goes with them."""
    rng = Random(seed)
    while True:
        layers, heads = rng.choice([2, 2, 3]), rng.choice([1, 2, 3])
        given = {
            "d": rng.choice([3, 4, 5]),
            "layers": layers,
            "heads": heads,
            "kv": rng.choice([k for k in (1, 2, 3) if heads % k == 0]),
            "head": rng.choice([1, 2, 3]),
            "dv": rng.choice([2, 3]),
            "attn": [rng.choice(["lightning", "softmax"]) for _ in range(layers)],
            "norm": "rms",
            "place": rng.choice(["post", "pre"]),
            "eps": rng.choice([0, "1e-3"]),
            "mixeps": rng.choice([0, "1e-2"]),
            "decay": rng.choice(["none", "slopes", "slopes"]),
            "window": rng.choice([0, 0, 2]),
            "skip": rng.choice([1, "3/2"]),
            "gain": rng.random() < 0.8,
            "mlp": rng.choice(["none", "swiglu", "gelu"]),
            "causal": True,
            "feature": "silu",
            "gate": "element",
            "mixnorm": True,
            "t": rng.choice([2, 3, 4]),
        }
        given["ff"] = 0 if given["mlp"] == "none" else 2
        if given["head"] == 2:
            given |= {"pos": rng.choice(["none", "rope"])}
        if rng.random() < 0.4:
            given |= {"vocab": rng.choice([9, 11]), "embnorm": rng.random() < 0.5}
        try:
            spec = Transformer.from_mapping(given)
        except SpecError:
            continue
        if spec.parameters <= most and spec.by_mechanism:
            return spec


# --- specs --------------------------------------------------------------------------------


def test_lists_that_say_the_same_are_the_same() -> None:
    one, other = (
        Transformer.parse(f"{MIXED.replace('layers=2', 'layers=4')}/attn={attn}/t=2")
        for attn in ("softmax,lightning", "softmax,lightning,softmax,lightning")
    )
    assert one == other
    assert one.digest == other.digest
    assert Transformer.parse(str(one)) == one
    alike = Transformer.parse("transformer/d=4/layers=2/attn=softmax,softmax/t=2")
    assert alike == Transformer.parse("transformer/d=4/layers=2/t=2")


def test_the_keys_of_one_mechanism_say_nothing_of_the_other() -> None:
    spec = Transformer.parse(f"{MIXED}/attn=lightning,softmax/pos=rope/window=2/scale=3/t=3")
    first, second = spec.at(1), spec.at(2)
    assert (first.attn, first.kv, first.pos, first.window, first.scale) == (
        *("lightning", 2, "none"),
        *((), 0),
    )
    assert (second.kv, second.gate, second.feature, second.mixnorm) == (1, "none", "none", False)
    assert (spec.sees(1), spec.sees(2)) == (3, 2)
    assert first.at(1) == first
    assert [one.name for one in spec.mechanisms] == ["lightning", "softmax"]
    assert not spec.sums_to_one


@pytest.mark.parametrize("seed", range(12))
def test_weights_are_counted_without_a_table(seed: int) -> None:
    spec = random_design(seed, 1000)
    every = tensors(spec)
    assert spec.parameters == sum(prod(slot.shape) for slot in every.values())
    sizes: dict[tuple[str, bool], int] = {}
    for (part, name), slot in every.items():
        if part not in ("embed", "head"):
            key = (part, of_mlp(name))
            sizes[key] = sizes.get(key, 0) + prod(slot.shape)
    assert largest_stage(spec) == max(sizes.values())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("layers=2/attn=lightning,softmax", "attn by layer needs feature=silu"),
        (f"layers=2/attn=lightning,softmax/{LIGHTNING}", "attn by layer needs norm=rms"),
        (
            f"layers=2/attn=lightning,softmax/{LIGHTNING}/norm=rms/bias=qkv",
            "bias=qkv cannot be combined",
        ),
        (
            f"layers=2/attn=lightning,softmax/{LIGHTNING}/norm=rms/share=true",
            "share=true cannot be",
        ),
        (f"layers=2/attn=lightning,softmax/{LIGHTNING}/norm=rms/t=1", "t=1 cannot be combined"),
        ("layers=1/attn=lightning,softmax", "more values than layers=1"),
        ("layers=2/attn=lightning,fast", "attn: 'fast' is not allowed"),
        ("attn=lightning/decay=slopes", "decay needs causal=true and gate=element"),
        ("attn=softmax/decay=slopes/causal=true/gate=element", "decay needs attn=lightning"),
        ("attn=lightning/decay=slopes/causal=true/gate=element/window=2", "decay needs"),
        ("skip=2", "skip needs norm=rms, place=post"),
        ("skip=2/norm=rms/place=post/bias=all", "skip needs norm=rms, place=post"),
        ("skip=0/norm=rms/place=post", "skip: 0 is not allowed"),
        ("mixeps=1", "mixeps needs mixnorm=true"),
    ],
)
def test_choices_that_do_not_go_together(text: str, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        Transformer.parse(f"transformer/d=4/heads=2/{text}{'' if 't=1' in text else '/t=2'}")


# --- decays -------------------------------------------------------------------------------


def test_decays_are_powers_by_how_long_ago_a_key_was() -> None:
    rng = np.random.default_rng(0)
    spec = Transformer.parse(
        "transformer/d=3/layers=2/heads=2/head=2/attn=lightning/gate=element/causal=true"
        "/residual=false/decay=slopes/t=4"
    )
    vector, x = rng.normal(size=spec.parameters), rng.normal(size=(3, 4))
    y = x
    for layer in (1, 2):
        w = {
            name: vector[slot.range].reshape(slot.shape)
            for (part, name), slot in tensors(spec).items()
            if part == str(layer)
        }
        out = np.zeros((3, 4))
        for h in (0, 1):
            Q, K, V = (w[f"W_{name}"][h, 0] @ y for name in "QKV")
            slope = 2.0 ** (-8 * (h + 1) / 2) * (1 - (layer - 1) / (1 + 1e-5) + 1e-5)
            ago = np.arange(4)[None] - np.arange(4)[:, None]
            mixed = V @ (np.triu(K.T @ Q) * np.exp(-slope * ago))
            out += w["W_O"][h, 0] @ (mixed / (1 + np.exp(-w["W_G"][h, 0] @ y)))
        y = out
    assert np.allclose(forward(Real(), spec, vector, x[None])[0], y, atol=1e-13)


@pytest.mark.parametrize("heads", [1, 3, 8, 64])
@pytest.mark.parametrize("layers", [1, 2, 80])
def test_decays_mod_p_keep_their_relations(heads: int, layers: int) -> None:
    """In a layer a decay is the square of that one octave later; between layers, powers agree."""
    field = Prime(8388587, 3)
    kernel = Residues(field.p, 3)
    every = {}
    for h in range(1, heads + 1):
        for i in {1, layers}:
            rate = Slope.in_layer(h, heads, i, layers)
            found = int(field.residues(field.slope(rate)).item())
            every[h, i] = found
            assert found == kernel.power(Rate(rate.exponent, rate.factor, rate.fine), 2)[1]
    octave = heads // 8
    if heads % 8 == 0:
        for (h, i), found in every.items():
            if h + octave <= heads:
                assert found == pow(every[h + octave, i], 2, field.p)
    first, last = (Slope.in_layer(1, heads, i, layers).power(1 << 40)[1] for i in (1, layers))
    ratio = last / first
    assert pow(every[1, 1], ratio.numerator, field.p) == pow(
        every[1, layers], ratio.denominator, field.p
    )


def test_heads_with_decays_are_not_exchanged() -> None:
    base = f"transformer/d=4/heads=2/attn=lightning/causal=true/{LIGHTNING}/t=2"
    plain, decayed = (Transformer.parse(f"{base}{more}") for more in ("", "/decay=slopes"))
    assert "heads" in [found.what for found in discrete_symmetries(plain)]
    assert "heads" not in [found.what for found in discrete_symmetries(decayed)]


# --- dimensions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (
            f"transformer/d=3/heads=2/head=2/attn=lightning/causal=true/residual=false"
            f"/{LIGHTNING}/decay=slopes/t=3",
            60,
        ),
        (
            "transformer/d=3/heads=2/head=2/attn=lightning/causal=true/residual=false"
            "/gate=element/decay=slopes/t=3",
            46,
        ),
        (
            f"{MIXED}/kv=2/attn=lightning,softmax/place=post/decay=slopes/t=3".replace("kv=1/", ""),
            97,
        ),
        ("minimax/d=4/layers=2/heads=2/kv=1/mlp=none/eps=1e-5/vocab=11/t=3", 210),
        ("minimax/d=4/layers=2/heads=2/kv=1/mlp=none/mixeps=0/vocab=11/skip=1.5/t=3", 201),
    ],
)
def test_dimensions(text: str, value: int) -> None:
    document = certify(text)
    assert document["claim"]["status"] == "proved"
    assert document["claim"]["lower"] == value
    assert verify(document).valid


@pytest.mark.parametrize(
    "change",
    [
        {"decay": "none"},
        {"skip": 3},
        {"attn": ["softmax", "lightning"]},
        {"mixeps": "1/7"},
        {"kv": 2},
    ],
)
def test_certificates_know_their_layers(change: dict[str, object]) -> None:
    spec = f"{MIXED}/attn=lightning,softmax/place=post/decay=slopes/skip=2/t=3"
    document = certify(spec)
    assert verify(document).valid
    body = {key: value for key, value in document.items() if key != "checksum"}
    body["spec"] = {**document["spec"], **change}
    assert not verify({**body, "checksum": sha256(body)}).valid


@pytest.mark.parametrize("seed", range(16))
def test_certificates_of_random_designs_are_accepted(seed: int) -> None:
    """That generators are in the kernel is checked when they are counted, by both sides."""
    try:
        document = certify(random_design(seed))
    except UnluckyError:
        return
    assert document["claim"]["lower"] <= document["claim"]["upper"]
    assert verify(document).valid


def test_a_factor_of_the_skips_changes_no_dimension() -> None:
    base = f"{MIXED}/attn=lightning,softmax/place=post/eps=1e-3/t=3"
    one, other = (dimension(f"{base}{more}") for more in ("", "/skip=5/2"))
    assert one.value == other.value
    assert one.status == other.status == "proved"
    assert Transformer.parse(f"{base}/skip=5/2").skip == Fraction(5, 2)


def test_explain_says_what_lightning_layers_remove() -> None:
    found = explain("minimax/d=6/layers=2/heads=2/kv=1/head=3/mlp=none/pos=none/t=3")
    (choice,) = [one for one in found.choices if one.name == "lightning layers"]
    assert (choice.change["QK"], choice.change["VO"]) == (9, 9)


# --- the family ---------------------------------------------------------------------------


def test_the_preset_has_the_parameters_that_its_name_says() -> None:
    spec = _transformer("minimax-text-01")
    assert spec.parameters == 456_089_655_296
    assert [spec.at(i).attn for i in (1, 7, 8, 80)] == ["lightning", "lightning", *["softmax"] * 2]


def test_inline_specs_of_one_kind_of_layers() -> None:
    lightning = _transformer("minimax/d=8/layers=2/heads=2/eff=4/vocab=11/attn=lightning/t=3")
    assert (lightning.attn, lightning.pos, lightning.decay) == ("lightning", "none", "slopes")
    softmax = _transformer("minimax/d=8/heads=2/eff=4/vocab=11/t=3")
    assert (softmax.attn, softmax.pos, softmax.gate) == ("softmax", "rope", "none")
