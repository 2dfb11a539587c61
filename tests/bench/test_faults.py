"""A few of every kind of fault that docs/reliability.md counts: nothing gets through."""

import pytest
from bench.faults.__main__ import kinds, tallies


@pytest.mark.parametrize("kind", kinds())
def test_nothing_gets_through(kind: str) -> None:
    found = tallies(kind, quick=True)
    assert found
    for one in found:
        assert one.tried > 0, one
        assert one.wrong == 0, one
