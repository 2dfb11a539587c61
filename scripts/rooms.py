"""How large is every room, and how many modules does a command pass?

Prints the table of docs/design.md: lines of Python in src/segre by room, at the beginning of the
redesign (from the history of the repository) and now, and the modules of segre that four commands
pass. Run it in a checkout with its history: `python scripts/rooms.py`.
"""

import io
import subprocess
import sys
import tarfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parent.parent
BEGINNING = "13b11545"  # the last commit before the redesign
TOGETHER = {"hybrid": "stack", "referee": "kernel"}  # rooms that are now part of others
COMMANDS = {
    "dim": ["dim", "softmax/d=3,3/a=2/t=2"],
    "same": ["same", "segre-demo/fine-tune", "segre-demo/moved"],
    "diff": ["diff", "segre-demo/base", "segre-demo/fine-tune"],
    "analyze": ["analyze", "segre-demo/base"],
}
PASSED = """
import sys
from segre.cli import main
seen = set()
def note(frame, event, _):
    if event == "call" and frame.f_code.co_name != "<module>":
        seen.add(frame.f_code.co_filename)
sys.setprofile(note)
try:
    main()
except SystemExit:
    pass
sys.setprofile(None)
print(sum("/segre/" in name for name in seen))
"""


def room_of(path: str) -> str:
    """The package of a module of segre, or that it stands alone."""
    first, *rest = path.removeprefix("src/segre/").split("/")
    return TOGETHER.get(first, first) if rest else "single modules"


def now() -> Counter[str]:
    """Lines by room in the working tree."""
    files = (ROOT / "src/segre").rglob("*.py")
    return _counted((str(file.relative_to(ROOT)), file.read_bytes()) for file in files)


def at(commit: str) -> Counter[str]:
    """Lines by room in a commit."""
    packed = subprocess.run(
        ["git", "archive", commit, "src/segre"], cwd=ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        members = [one for one in archive if one.name.endswith(".py")]
        return _counted((one.name, archive.extractfile(one).read()) for one in members)


def _counted(files) -> Counter[str]:
    lines: Counter[str] = Counter()
    for name, data in files:
        lines[room_of(name)] += data.count(b"\n")
    return lines


def modules(arguments: list[str]) -> int:
    """In how many modules of segre a command calls something."""
    command = [sys.executable, "-c", PASSED, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout.splitlines()[-1])


def main() -> None:
    """Both tables."""
    before, after = at(BEGINNING), now()
    print("| room | lines before | lines now |\n|---|---|---|")
    for room in sorted({*before, *after}, key=lambda one: (-after[one], one)):
        print(f"| {room} | {before[room] or '–'} | {after[room] or '–'} |")
    print(f"| all | {before.total()} | {after.total()} |\n")
    print("| command | modules that it passes |\n|---|---|")
    for name, arguments in COMMANDS.items():
        print(f"| `segre {name}` | {modules(arguments)} |")


if __name__ == "__main__":
    main()
