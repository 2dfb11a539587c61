"""What a stack is called does not change: digests of 500 spellings, frozen from an older version.

Certificates, stores and sweeps name stacks by their digests.
"""

import json
from pathlib import Path

import pytest

from segre.models import architecture

DIGESTS: dict[str, str] = json.loads(Path(__file__).with_name("digests.json").read_text())


def test_the_list_is_long() -> None:
    assert len(DIGESTS) >= 500


@pytest.mark.parametrize("part", range(10))
def test_digests_of_old_specs_stay(part: int) -> None:
    for text, digest in list(DIGESTS.items())[part::10]:
        assert architecture(text).digest == digest, text


def test_every_way_to_write_a_stack_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    for text, digest in list(DIGESTS.items())[::5]:
        spec = architecture(text)
        assert architecture(str(spec)) == spec, text
        assert architecture(spec.document()) == spec, text
        path.write_text(json.dumps(spec.document()))
        assert architecture(path).digest == digest, text
