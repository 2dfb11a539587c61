"""What a spec is called does not change when specs learn to say more.

digests.json was written before windows, scales and rescaled frequencies were keys of specs.
Certificates and stores name architectures by their digests.
"""

import json
from pathlib import Path

import pytest

from segre.models import architecture

DIGESTS = json.loads(Path(__file__).with_name("digests.json").read_text())


@pytest.mark.parametrize("text", DIGESTS)
def test_digests_of_old_specs_stay(text: str) -> None:
    assert architecture(text).digest == DIGESTS[text]
