"""Write hashes.txt: every version of constraints.txt with the SHA-256 of all of its files.

python scripts/lock.py          asks the package index that pip is set up with

All files of a version are listed, for every platform and Python, so that the same file serves
all. torch is left out: machines without a graphics card install a smaller build of it, which an
index of its own has, so that no one list of files is right.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
LEFT_OUT = ("torch",)
HEAD = """\
# The files of the versions in constraints.txt, by scripts/lock.py; scripts/setup.sh checks them.
# Not here: torch, of which there are builds with and without CUDA under the same version. It is
# installed by version alone, and its files are not checked.
"""
REST = "# Only for bench.linear, and the checkpoints of the tests:"


def pinned() -> dict[str, str]:
    """The versions of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return dict(line.split("==") for line in lines if "==" in line)


def needed() -> set[str]:
    """What segre[dev] asks for, directly or not, on any platform."""
    from importlib.metadata import PackageNotFoundError, requires

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    found: set[tuple[str, str]] = set()
    todo = {("segre", ""), ("segre", "dev"), ("hatchling", ""), ("editables", "")}
    while todo:
        name, extra = one = todo.pop()
        found.add(one)
        try:
            asked = [Requirement(line) for line in requires(name) or ()]
        except PackageNotFoundError:  # needed on another platform
            continue
        for each in asked:
            own = "extra" not in str(each.marker) if each.marker else True
            if own or (each.marker and each.marker.evaluate({"extra": extra})):
                todo |= {(canonicalize_name(each.name), one) for one in ("", *each.extras)} - found
    return {name for name, _ in found}


def hashes(finder: Any, name: str, version: str) -> list[str]:
    """The SHA-256 of every file of a version in the indexes."""
    from pip._internal.index.collector import parse_links
    from pip._internal.models.link import Link
    from pip._vendor.packaging.utils import (
        canonicalize_name,
        parse_sdist_filename,
        parse_wheel_filename,
    )
    from pip._vendor.packaging.version import Version

    found = set()
    collector = finder._link_collector
    for url in collector.search_scope.get_index_urls_locations(name):
        page = collector.fetch_response(Link(url))
        for link in parse_links(page) if page is not None else ():
            try:
                read = parse_wheel_filename if link.is_wheel else parse_sdist_filename
                own, given = read(link.filename)[:2]
            except ValueError:  # an old kind of file
                continue
            said = (link.as_hashes() and link.as_hashes()._allowed.get("sha256")) or []
            if (own, given) == (canonicalize_name(name), Version(version)):
                found |= {*said}
    return sorted(found)


def main() -> None:
    """Ask for every version, and write the file when all are known."""
    from pip._internal.commands.install import InstallCommand

    command = InstallCommand("install", "")
    options, _ = command.parse_args([])
    wanted = needed()
    with command.main_context():
        finder = command._build_package_finder(options, command.get_default_session(options))
        lines, rest = [], [REST]
        for name, version in pinned().items():
            if name in LEFT_OUT:
                continue
            known = hashes(finder, name, version)
            if not known:
                sys.exit(f"{name} {version}: no index has a file with a hash")
            part = lines if re.sub("[-_.]+", "-", name).lower() in wanted else rest
            part.append(" ".join([f"{name}=={version}", *(f"--hash=sha256:{x}" for x in known)]))
    text = HEAD + "\n".join([*lines, *rest]) + "\n"
    (ROOT / "hashes.txt").write_text(text)
    print(f"hashes.txt: {text.count('==')} versions, {text.count('sha256:'):,} files")


if __name__ == "__main__":
    main()
