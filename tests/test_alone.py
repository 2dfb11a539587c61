"""`pip install segre` alone does everything that needs no torch.

The commands below run in a clean environment that has the wheel and what it asks for.
"""

import re
import shutil
from pathlib import Path

import pytest

from blocks import ROOT
from support.installation import Environment, core

pytestmark = [pytest.mark.release, pytest.mark.slow]

WITHOUT = ("torch", "transformers", "tokenizers", "pandas", "pyarrow", "distributed", "IPython")
# The command line, one command a line, in one process.
SESSION = """
import sys
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
model info tiny-llama --plot info.png
model move tiny-llama -o moved
same tiny-llama moved
model canonical tiny-llama -o normal
model align tiny-llama moved -o aligned
model lineage tiny-llama moved --plot tree.png
model hash tiny-llama
model collapse tiny-llama --plot depth.svg
model paths tiny-llama
sweep run deep-softmax -o s.db --limit 3 --workers 1
sweep status s.db
sweep export s.db -o s.csv
sweep plot s.db -o s.html
variety slice cone -o cone.html
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


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return core(tmp_path_factory)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("alone")
    shutil.copytree(ROOT / "examples" / "tiny-llama", folder / "tiny-llama")
    return folder


def test_nothing_else_is_there(environment: Environment, place: Path) -> None:
    code = f"from importlib.util import find_spec as f; print([n for n in {WITHOUT} if f(n)])"
    assert environment.run("-c", code, cwd=place).stdout == "[]\n"


def test_everything_without_torch_runs(environment: Environment, place: Path) -> None:
    done = environment.run("-c", SESSION, cwd=place, given=COMMANDS.strip())
    assert done.stderr == ""
    ends = re.findall(r"^exit (\d+): (.*)$", done.stdout, re.MULTILINE)
    assert [line for _, line in ends] == COMMANDS.strip().split("\n")
    assert {code for code, _ in ends} == {"0"}, done.stdout
    for name in ("design.html", "model.html"):
        page = (place / name).read_text()
        assert len(page) > 5e5
        assert "cannot be imported" not in page
    assert re.search(r"^same function$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("command", NEED_MORE)
def test_what_needs_more_says_so(command: str, environment: Environment, tmp_path: Path) -> None:
    if "s.db" in command:
        environment.segre("sweep run deep-softmax -o s.db --limit 1 --workers 1", tmp_path)
    before = sorted(tmp_path.iterdir())
    done = environment.segre(command, tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{NEED_MORE[command]}\n"
    assert sorted(tmp_path.iterdir()) == before


def test_answers_show_themselves_without_pandas(environment: Environment, place: Path) -> None:
    code = (
        "import segre\nfound = segre.compare('gpt2')\n"
        "assert '1,347,352' in str(found) and '1,347,352' in found._repr_html_()\n"
        "try: found.to_pandas()\nexcept segre.SegreError as error: print(error)"
    )
    done = environment.run("-c", code, cwd=place)
    assert done.stderr == ""
    assert done.stdout == (
        "to_pandas needs pandas, which is not installed; pip install 'segre[tables]'\n"
    )
