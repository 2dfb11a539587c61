"""hashes.txt has the files of every version in constraints.txt, but for torch."""

import re
from importlib.metadata import distributions
from pathlib import Path

from lock import LEFT_OUT, REST, needed, pinned

ROOT = Path(__file__).parent.parent
LINE = re.compile(r"(\S+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)")


def test_every_version_has_the_hashes_of_its_files() -> None:
    text = (ROOT / "hashes.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {}
    for line in lines:
        match = LINE.fullmatch(line)
        assert match is not None, line[:100]
        hashes = match[3].split()
        assert len({*hashes}) == len(hashes)
        found[match[1]] = match[2]
    assert found == {name: version for name, version in pinned().items() if name not in LEFT_OUT}


def test_all_that_the_tests_need_is_checked_when_it_is_installed() -> None:
    checked = (ROOT / "hashes.txt").read_text().partition(REST)[0]
    names = {re.sub("[-_.]+", "-", name).lower() for name in re.findall(r"^(\S+)==", checked, re.M)}
    here = {re.sub("[-_.]+", "-", one.name).lower() for one in distributions()}
    # setuptools comes with the environment, and only torch asks for it
    assert (needed() & here) - names == {"segre", "setuptools", *LEFT_OUT} & here
