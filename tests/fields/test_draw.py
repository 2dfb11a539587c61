import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from segre.fields.draw import Stream, words
from segre.fields.prime import Prime

MASK = 2**64 - 1
G = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


@given(st.integers(0, MASK), st.sampled_from(Stream), st.lists(st.integers(0, 2**60), min_size=1))
def test_words_follow_the_definition(seed: int, stream: Stream, index: list[int]) -> None:
    key = mix(seed + (stream + 1) * G & MASK)
    expected = [mix(key + (i + 1) * G & MASK) for i in index]
    assert words(seed, stream, np.array(index, dtype=np.uint64)).tolist() == expected


def test_splitmix64_reference_values() -> None:
    """With key 0 the words are SplitMix64's published output for seed 0."""
    assert [mix((i + 1) * G & MASK) for i in range(3)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
        0x06C45D188009454F,
    ]


def test_a_later_start_continues_the_stream() -> None:
    field = Prime(seed=9)
    whole = field.draw(Stream.INPUTS, 0, (6, 4))
    assert (field.draw(Stream.INPUTS, 8, (4, 4)) == whole[2:]).all()
