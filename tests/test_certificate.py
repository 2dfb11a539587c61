"""The prover's side of certificates; the kernel.s is in tests/kernel."""

import json
from pathlib import Path

import numpy as np
import pytest

from segre.certificate import certify, checksum, write_certificate
from segre.errors import SegreError
from segre.geometry import independence
from segre.kernel import verify
from segre.spec import Network


def test_the_same_spec_and_seed_give_the_same_bytes(tmp_path: Path) -> None:
    text = "softmax/d=3,3,3/a=2/heads=2/t=2"
    for name in ("one.json", "two.json"):
        write_certificate(certify(text, seed=4), tmp_path / name)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert certify(text, seed=5)["checksum"] != certify(text, seed=4)["checksum"]


def test_it_names_the_architecture_and_survives_json() -> None:
    document = certify("lightning/d=3,2,3/a=1/t=3")
    assert Network.parse(document["spec"]).digest == document["digest"]
    again = json.loads(json.dumps(document))
    assert again == document
    assert checksum(again) == document["checksum"]


def test_writing_replaces_at_once_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "cert.json"
    path.write_text("before")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", fail)
    with pytest.raises(SegreError, match="No space left"):
        write_certificate({}, path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_without_independence_the_minor_is_in_balls(monkeypatch: pytest.MonkeyPatch) -> None:
    every = np.array([(k, q) for k in range(2) for q in range(2)]).T
    monkeypatch.setattr(independence, "distinct_scores", lambda _: [(1, every)])
    document = certify("softmax/d=1,2/a=1/t=2")
    assert document["claim"]["lower_by"] == "balls"
    assert verify(document).valid
