"""`pip install segre` alone does everything that needs no torch.

What such an installation has is read from the metadata of packages; whatever else is installed here
cannot be imported by the commands below.
"""

import re
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT = ("torch", "transformers", "tokenizers", "pandas", "pyarrow", "distributed", "IPython")
# Modules of other packages cannot be imported; then the command line runs, one command a line.
ALONE = """
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

absent = set(sys.argv[1].split(","))
sys.meta_path.insert(0, Absent())
from segre.cli import ending, main
ending.open_streams = lambda: None  # once is enough
for line in sys.stdin.read().splitlines():
    sys.argv = ["segre", *line.split()]
    try:
        main()
    except SystemExit as end:
        print(f"exit {end.code}: {line}", flush=True)
"""
COMMANDS = """
analyze softmax/d=3,3/a=1/t=2 -o design.html
analyze tiny-llama -o model.html --only what,depth,heads,paths,weights
dim softmax/d=4,4,4/a=2/t=3
dim --compare gpt2 llama-3-8b
explain gpt2
certify softmax/d=3,3/a=2/t=3 -o cert.json
verify cert.json
weights info tiny-llama --plot info.png
weights move tiny-llama -o moved
weights same tiny-llama moved
weights canonical tiny-llama -o normal
weights align tiny-llama moved -o aligned
weights lineage tiny-llama moved --plot tree.png
weights hash tiny-llama
collapse tiny-llama --plot depth.svg
paths tiny-llama
sweep run deep-softmax -o s.db --limit 3 --workers 1
sweep status s.db
sweep export s.db -o s.csv
sweep plot s.db -o s.html
plot slice cone -o cone.html
reproduce normalized-dimension --widest 3 -o n.png
"""
NEED_MORE = {
    "sweep export s.db -o s.parquet": "segre: Parquet needs pyarrow, which is not installed; "
    "pip install 'segre[tables]'",
    "reproduce circle -o circle.png": "segre: training needs torch, which is not installed; "
    "pip install 'segre[models]'",
    "sweep run deep-softmax -o t.db --dask tcp://127.0.0.1:9": "segre: --dask needs distributed, "
    "which is not installed; pip install 'segre[cluster]'",
}


@cache
def core() -> frozenset[str]:
    """The packages that come with segre, and with what it asks for."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in PROJECT["dependencies"]]
    while waiting:
        one = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": ""}):
            continue
        name = canonicalize_name(one.name)
        if name not in found:
            found.add(name)
            try:
                waiting += [Requirement(text) for text in requires(name) or ()]
            except PackageNotFoundError:  # asked for on other machines
                continue
    return frozenset(found)


@cache
def absent() -> frozenset[str]:
    """The modules that an installation of segre alone does not have."""
    own = {*core(), "segre"}
    return frozenset(
        module
        for module, packages in packages_distributions().items()
        if not own & {canonicalize_name(package) for package in packages}
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    shutil.copytree(ROOT / "examples" / "tiny-llama", folder / "tiny-llama")
    return folder


def segre(commands: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    arguments = [sys.executable, "-c", ALONE, ",".join(sorted(absent()))]
    return subprocess.run(arguments, input=commands, capture_output=True, text=True, cwd=cwd)


def test_the_list_is_what_it_should_be() -> None:
    assert set(WITHOUT) <= absent()
    assert not absent() & {"numpy", "scipy", "matplotlib", "plotly", "jinja2", "rich", "segre"}


@pytest.mark.slow
def test_everything_without_torch_runs(place: Path) -> None:
    done = segre(COMMANDS.strip(), place)
    assert done.stderr == ""
    ends = re.findall(r"^exit (\d+): (.*)$", done.stdout, re.MULTILINE)
    assert [line for _, line in ends] == COMMANDS.strip().split("\n")
    assert {code for code, _ in ends} == {"0"}, done.stdout
    for name in ("design.html", "model.html"):
        page = (place / name).read_text()
        assert len(page) > 1e6
        assert "cannot be imported" not in page
    assert re.search(r"^same function$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("command", NEED_MORE)
def test_what_needs_more_says_so(command: str, place: Path) -> None:
    if "s.db" in command:
        segre("sweep run deep-softmax -o s.db --limit 1 --workers 1", place)
    done = segre(command, place)
    assert done.stderr.rstrip("\n") == NEED_MORE[command]
    assert done.stdout.rstrip("\n").endswith(f"exit 2: {command}")


def test_answers_show_themselves_without_pandas(place: Path) -> None:
    code = (
        ALONE.partition("from segre.cli")[0] + "import segre\nfound = segre.compare('gpt2')\n"
        "assert '1,347,352' in str(found) and '1,347,352' in found._repr_html_()\n"
        "try: found.to_pandas()\nexcept segre.SegreError as error: print(error)"
    )
    arguments = [sys.executable, "-c", code, ",".join(sorted(absent()))]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=place)
    assert done.stderr == ""
    assert done.stdout == (
        "to_pandas needs pandas, which is not installed; pip install 'segre[tables]'\n"
    )
