"""What a spec is called does not change when specs learn to say more."""

import pytest
from tests.transformer.digests import DIGESTS

from segre.families import architecture


@pytest.mark.parametrize("text", DIGESTS)
def test_digests_of_old_specs_stay(text: str) -> None:
    assert architecture(text).digest == DIGESTS[text]
