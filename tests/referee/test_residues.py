"""The random elements are those of the document."""

from segre.referee.residues import INPUTS, WEIGHTS, Draw, Stream

MASK = 2**64 - 1
G = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    z ^= z >> 30
    z = z * 0xBF58476D1CE4E5B9 & MASK
    z ^= z >> 27
    z = z * 0x94D049BB133111EB & MASK
    z ^= z >> 31
    return z


def u(seed: int, stream: int, i: int) -> int:
    return mix((mix((seed + (stream + 1) * G) & MASK) + (i + 1) * G) & MASK)


def test_values_of_the_definition() -> None:
    # What the definition of section 3 gives; the first is two rounds of splitmix64 from 0.
    stream = Stream.of(0, 0)
    assert stream.start == 0xE220A8397B1DCDAF
    assert stream(0) == 12035550249420947055
    assert stream(1) == 12935080325729570654


def test_all_streams_up_to_the_largest_seed_and_index() -> None:
    for seed in (0, 1, 2**63, 2**64 - 1):
        for stream in range(5):
            numbers = Stream.of(seed, stream)
            for i in (0, 1, 1000, 2**40, 2**64 - 1):
                assert numbers(i) == u(seed, stream, i)


def test_matrices_are_cut_row_major() -> None:
    p, seed = 65537, 7
    matrix = Draw(p, seed).matrix(INPUTS, 3, 2, 4)
    expected = [[u(seed, 1, 3 * 8 + r * 4 + c) % p for c in range(4)] for r in range(2)]
    assert [[int(x) for x in row] for row in matrix.tolist()] == expected
    assert Draw(p, seed).residues(WEIGHTS, 5, 2) == [u(seed, 0, 5) % p, u(seed, 0, 6) % p]


def test_exponentials_have_no_zeros() -> None:
    p = 65537
    exp = Draw(p, 1).exponentials()
    assert exp(0) == 1
    assert exp(5) == 1 + u(1, 2, 5) % (p - 1)
    assert all(0 < exp(z) < p for z in range(0, p, 7))
