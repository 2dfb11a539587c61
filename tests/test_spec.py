import contextlib
import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from segre.errors import SpecError
from segre.models import architecture
from segre.spec import Network
from support.architectures import networks


@pytest.mark.parametrize(
    ("long", "short"),
    [
        ("llama/d_model=8/n_heads=4/n_kv_heads=2/d_ff=16/t=3", "llama/d=8/heads=4/kv=2/ff=16/t=3"),
        (
            "transformer/d_model=6/n_layers=2/n_heads=2/d_head=2",
            "transformer/d=6/layers=2/heads=2/head=2",
        ),
        (
            "softmax/d_model=4/n_layers=2/n_heads=2/d_head=3/t=2",
            "softmax/d=4/layers=2/heads=2/a=3/t=2",
        ),
    ],
)
def test_keys_may_have_their_common_names(long: str, short: str) -> None:
    assert architecture(long) == architecture(short)
    given = dict(part.split("=") for part in long.split("/")[1:])
    numbers = {key: int(value) for key, value in given.items()}
    assert architecture({"kind": long.split("/")[0], **numbers}) == architecture(short)
    with pytest.raises(SpecError, match="are the same key"):
        architecture(long + "/d=4")


def test_reads_an_inline_spec() -> None:
    net = Network.parse("lightning/d=4,5,6/a=2,3/heads=1,2/dv=none,3/t=7")
    assert (net.score, net.widths, net.t, net.depth) == ("lightning", (4, 5, 6), 7, 2)
    assert [x.a for x in net.layers] == [2, 3]
    assert [x.dv for x in net.layers] == [None, 3]
    assert net.parameters == (2 * 2 * 4 + 5 * 4) + 2 * (2 * 3 * 5 + 3 * (5 + 6))


def test_a_single_value_repeats_for_every_layer() -> None:
    assert Network.parse("softmax/d=4,4,4/a=2/t=3") == Network.parse("softmax/d=4,4,4/a=2,2/t=3")
    assert Network.parse("softmax/d=4/layers=3/a=2/t=3").widths == (4, 4, 4, 4)


@given(networks())
def test_text_and_documents_round_trip(net: Network) -> None:
    assert Network.parse(str(net)) == net
    assert Network.parse(net.document()) == net
    assert Network.parse(json.loads(json.dumps(net.document()))).digest == net.digest


@given(networks(), networks())
def test_digests_agree_exactly_when_networks_do(one: Network, two: Network) -> None:
    assert (one.digest == two.digest) == (one == two)


def test_digest_is_stable_across_versions() -> None:
    text = '{"a":[2,2],"d":[10,10,10],"kind":"softmax","t":3,"version":1}'
    digest = Network.parse("softmax/d=10,10,10/a=2,2/t=3").digest
    assert digest == hashlib.sha256(text.encode()).hexdigest()


def test_reads_toml_and_json_files(tmp_path) -> None:
    text = 'kind = "softmax"\nd = [6, 6]\na = 2\nheads = 3\nt = 3\n'
    (tmp_path / "net.toml").write_text(text)
    net = Network.parse(tmp_path / "net.toml")
    assert net == Network.parse("softmax/d=6,6/a=2/heads=3/t=3")
    (tmp_path / "net.json").write_text(json.dumps(net.document()))
    assert Network.parse(str(tmp_path / "net.json")) == net


MALFORMED = [
    "",
    "softmax",
    "softmax/",
    "transformer/d=4,4/a=2/t=3",
    "softmax/d=4/a=2/t=3",
    "softmax/d=4,4/t=3",
    "softmax/d=4,4/a=2",
    "softmax/d=4,4/a=0/t=3",
    "softmax/d=4,-4/a=2/t=3",
    "softmax/d=4,4.0/a=2/t=3",
    "softmax/d=4,,4/a=2/t=3",
    "softmax/d=4,4/a=2,2,2/t=3",
    "softmax/d=4,4/a=2/t=3,3",
    "softmax/d=4,4/a=2/t=3/colour=blue",
    "softmax/d=4,4/a=2/a=3/t=3",
    "softmax/d=4,4/a=2/t=99999999999999999999",
    "softmax/d=4,4/a=2/t=3/heads=true",
    "softmax/d=4,4/a=2/t=3/residual=1",
    "softmax/d=4,4/a=2/t=3/norm=batch",
    "softmax/d=4,4/a=2/t=3/version=2",
    "softmax/d=4,4/a=²/t=3",
    "softmax/d=" + "4," * 10_005 + "4/a=2/t=3",
    "nowhere.toml",
    "spec.yaml",
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:40])
def test_a_malformed_spec_gets_one_line_that_quotes_it(text: str) -> None:
    with pytest.raises(SpecError) as caught:
        Network.parse(text)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"spec {text[:100]!r}"[: 5 + min(len(text), 100)])
    assert "allowed" in message or "No such file" in message or "for example" in message


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("truncated.json", '{"kind": "softmax", "d": [4'),
        ("list.json", "[1, 2]"),
        ("nested.json", "[" * 100_000),
        ("bad.toml", "kind = = 3"),
        ("binary.toml", "\x00\xff"),
        ("nan.json", '{"kind": "softmax", "d": [NaN, 4], "a": 2, "t": 3}'),
        ("big.json", " " * (1 << 20) + "{}"),
    ],
)
def test_a_bad_file_gets_one_line(tmp_path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content, encoding="latin-1")
    with pytest.raises(SpecError) as caught:
        Network.parse(path)
    assert "\n" not in str(caught.value)
    assert name in str(caught.value)


FEATURES = [
    "residual=true",
    "norm=rms",
    "norm=layer/place=post",
    "mlp=gelu/ff=8",
    "pos=rope",
]


@pytest.mark.parametrize("feature", FEATURES)
def test_features_of_transformers_are_sent_to_the_transformer_family(feature: str) -> None:
    with pytest.raises(SpecError, match="transformer/") as caught:
        Network.parse(f"softmax/d=4,4/a=2/{feature}/t=3")
    assert feature.split("=")[0] in str(caught.value)


@given(st.text(max_size=60))
def test_no_text_makes_the_reader_crash(text: str) -> None:
    for candidate in (text, "softmax/" + text, "lightning/d=4,4/a=2/" + text):
        with contextlib.suppress(SpecError):
            Network.parse(candidate)
