"""Write what commands really print into the documentation.

    python scripts/fill_docs.py docs/tutorial.md examples/01_dimension.py examples/first_look.ipynb

Console blocks of a page are run again, in order, in one fresh directory, and their outputs written
in. Outputs that agree with what is shown, as exactly as the block asks for and in every number
within a fifth, are left as they are.
An example gets what it prints into its docstring, and its last line into examples/README.md. A
notebook is run from the first cell to the last, and holds the outputs.
Review the difference before it is committed: the tests only see that pages and program agree.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from blocks import FENCE, ROOT, agree, blocks, prepare, printed
from example import Example


def filled(text: str) -> str:
    """A page with the outputs of its commands."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        prepare(text, folder)

        def fill(match: re.Match[str]) -> str:
            block = next(blocks(match[0]))
            if block.file:
                (folder / block.file).write_text(block.text, encoding="utf-8")
            if block.kind != "console":
                return match[0]
            lines = []
            for command, shown in block.steps:
                output = printed(command, folder)
                output = (
                    shown if agree(block.mark, output, shown) and near(output, shown) else output
                )
                lines += [f"$ {command}", *([output] if output else [])]
            info = f"{block.kind} {block.mark}".strip()
            return "\n".join([f"```{info}", *lines, "```"])

        return FENCE.sub(fill, text)


def near(one: str, two: str) -> bool:
    """Whether the numbers in two outputs differ by a fifth at most, one by one."""
    pairs = zip(_numbers(one), _numbers(two), strict=False)
    return all(abs(x - y) <= max(abs(x), abs(y)) / 5 for x, y in pairs)


def _numbers(text: str) -> list[float]:
    return [float(found) for found in re.findall(r"\d+(?:\.\d+)?(?:e[-+]\d+)?", text)]


def _filled(path: Path, text: str) -> str:
    if path.suffix == ".ipynb":
        from notebook import Notebook  # here: pages need no kernel

        return Notebook.of(path).filled()
    return Example.of(path).filled() if path.suffix == ".py" else filled(text)


def main() -> None:
    """Fill the pages and examples that are named."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for name in sys.argv[1:]:
        path = Path(name)
        before = path.read_text(encoding="utf-8")
        after = _filled(path, before)
        if after != before:
            path.write_text(after, encoding="utf-8")
            print(f"{name}: filled")
    table = ROOT / "examples" / "README.md"
    table.write_text(Example.table(table.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
