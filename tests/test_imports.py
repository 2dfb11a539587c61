"""Imports run one way, the kernel stands alone, and the command line starts light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "segre"
ORDER = [
    {"errors"},
    {"files", "json_data", "libraries", "shown"},
    {"slope", "values"},
    {"fields"},
    {"attention"},
    {"architectures"},
    {"spec"},
    {"finding", "stage"},
    {"stack"},
    {"polynomial"},
    {"transformer"},
    {"theorems"},
    {"models"},
    {"network"},
    {"weights"},
    {"sequence"},
    {"symmetry"},
    {"geometry"},
    {"optimum"},
    {"kernel"},
    {"certificate"},
    {"variety"},
    {"checkpoint"},
    {"checkpoints"},
    {"collapse"},
    {"inspect"},
    {"sweep"},
    {"sweeps"},
    {"reproduce"},
    {"analysis"},
    {"discovery"},
    {"doctor"},
    {"report"},
    {"explore"},
    {"cli"},
]
RANK = {room: n for n, rooms in enumerate(ORDER) for room in rooms}


def rooms_imported(path: Path) -> set[str]:
    """The rooms of segre that a module imports, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("segre."):
            found.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {n.name.split(".")[1] for n in node.names if n.name.startswith("segre.")}
    return found


def modules() -> list[Path]:
    return [path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py"]


def test_imports_go_one_way() -> None:
    """Of every module, what it imports and should not; a new room needs a place in ORDER."""
    found = {str(path.relative_to(SOURCE)): wrong_imports(path) for path in modules()}
    assert len(found) > 300
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def wrong_imports(path: Path) -> set[str]:
    """What a module imports from rooms that come later; the kernel has rules of its own."""
    room = path.relative_to(SOURCE).parts[0].removesuffix(".py").replace("__main__", "cli")
    imported = rooms_imported(path) - {room}
    if room == "kernel":
        readers = {"attention", "polynomial", "slope", "spec", "transformer"}
        return imported - {"errors", "files", "shown", *readers}
    if room not in RANK:
        return {f"{room} is a new room: give it a place in ORDER and in docs/design.md"}
    allowed = {other for other in RANK if RANK[other] < RANK[room]}
    return imported - allowed


def test_an_import_the_other_way_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    (tmp_path / "fields").mkdir()
    (tmp_path / "fields" / "one.py").write_text("def f():\n    from segre.cli import main")
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel" / "two.py").write_text("from segre.geometry import x")
    (tmp_path / "attic.py").write_text("from segre.errors import SegreError")
    assert wrong_imports(tmp_path / "fields" / "one.py") == {"cli"}
    assert wrong_imports(tmp_path / "kernel" / "two.py") == {"geometry"}
    assert "new room" in wrong_imports(tmp_path / "attic.py").pop()


def loaded_by(code: str) -> set[str]:
    script = f"import sys; {code}; print(' '.join(sys.modules))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return set(run.stdout.split())


HEAVY = {
    *("numpy", "scipy", "flint", "matplotlib", "torch", "transformers", "jinja2"),
    *("rich.console", "safetensors", "threadpoolctl", "sqlite3"),
}


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["--version"], ["doctor", "--help"], ["same", "--help"], ["dim"]],
    ids=" ".join,
)
def test_the_command_line_starts_light(arguments: list[str]) -> None:
    """What is printed before anything is computed waits for nothing heavy."""
    code = (
        f"from segre.cli import main; sys.argv = ['segre', *{arguments}];"
        "from contextlib import suppress, redirect_stdout; from io import StringIO\n"
        "with suppress(SystemExit), redirect_stdout(StringIO()): main()\n"
        "True"
    )
    loaded = loaded_by(code)
    assert "segre.cli.app" in loaded
    assert not loaded & HEAVY


def test_completion_of_architectures_is_light() -> None:
    loaded = loaded_by("from segre.cli.completion import architecture; assert architecture('gpt')")
    assert not loaded & HEAVY


def test_the_core_works_without_torch() -> None:
    code = (
        "sys.modules['torch'] = None; import segre;"
        "assert segre.dimension('softmax/d=2,2/a=1/t=2').value == 7;"
        "assert segre.verify(segre.certify('softmax/d=2,2/a=1/t=2')).valid"
    )
    assert "matplotlib" not in loaded_by(code)


def test_the_verifier_loads_nothing_of_the_prover() -> None:
    loaded = loaded_by("import segre.kernel.verify, segre.kernel.spaces, segre.kernel.lower")
    assert not {name for name in loaded if name.startswith(("segre.fields", "segre.geometry"))}
    assert not loaded & {"segre.network", "segre.certificate", "segre.symmetry"}
    assert "numpy" not in loaded_by("import segre.kernel")


def test_a_certificate_by_theorem_needs_integers_alone() -> None:
    code = (
        "from segre.kernel.theorem import check; from segre.kernel.document import Claim;"
        "from segre.spec import Network; spec = Network.parse('softmax/d=3,3/a=2/t=2');"
        "claim = Claim(21, 17, 17, 'theorem', 'theorem', 'proved');"
        "kept = {'name': 'changes that keep every M_i and L', 'dimension': 4};"
        "asked = {'name': 'A1', 'left': 2, 'relation': '>=', 'right': 2};"
        "lower = {'kind': 'theorem', 'name': 'A', 'hypotheses': [asked]};"
        "assert check(spec, claim, lower, {'kind': 'theorem', 'symmetries': [kept]})"
    )
    loaded = loaded_by(code)
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith("segre.theorems")}


def test_a_command_waits_for_no_other_room() -> None:
    """`segre dim` prints a finding, and loads nothing that other answers are made of."""
    code = (
        "from segre.cli import main; sys.argv = ['segre', 'dim', 'softmax/d=2,2/a=1/t=2'];"
        "from contextlib import suppress, redirect_stdout; from io import StringIO\n"
        "with suppress(SystemExit), redirect_stdout(StringIO()): main()\n"
        "True"
    )
    loaded = loaded_by(code)
    others = ("analysis", "checkpoint", "collapse", "kernel", "reproduce", "sweep", "weights")
    assert "segre.report.dimensions" in loaded
    assert not {name for name in loaded if name.split(".")[1:2] in [[room] for room in others]}
    assert not {name for name in loaded if name.startswith("segre.geometry.recover")}
    assert not loaded & {"rich.table", "scipy", "matplotlib", "jinja2"}


def test_segre_itself_is_light() -> None:
    assert not loaded_by("import segre; dir(segre)") & {
        *HEAVY,
        "segre.collapse",
        "segre.checkpoints",
    }
