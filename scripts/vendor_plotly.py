"""Renew the part of plotly.js that reports carry: src/segre/report/page/plotly/.

python scripts/vendor_plotly.py

The version is the one that the installed Python package plotly has inside. The files come from the
npm package plotly.js-cartesian-dist-min, fetched by `npm pack`; the script is compressed so that
the same version always gives the same bytes. Run this after a change of plotly in constraints.txt.
"""

from __future__ import annotations

import gzip
import re
import subprocess
import tarfile
import tempfile
from pathlib import Path

from plotly.offline import get_plotlyjs

PACKAGE = "plotly.js-cartesian-dist-min"
HOME = Path(__file__).parent.parent / "src" / "segre" / "report" / "page" / "plotly"


def main() -> None:
    """Fetch the package, and keep the script and its licence."""
    found = re.search(r"plotly\.js v([\d.]+)", get_plotlyjs()[:200])
    assert found is not None
    with tempfile.TemporaryDirectory() as folder:
        wanted = f"{PACKAGE}@{found[1]}"
        subprocess.run(["npm", "pack", wanted], cwd=folder, check=True, capture_output=True)
        (archive,) = Path(folder).glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        package = Path(folder) / "package"
        text = (package / "plotly-cartesian.min.js").read_bytes()
        HOME.mkdir(exist_ok=True)
        compressed = gzip.compress(text, compresslevel=9, mtime=0)
        (HOME / "plotly-cartesian.min.js.gz").write_bytes(compressed)
        (HOME / "LICENSE").write_bytes((package / "LICENSE").read_bytes())
    print(f"{wanted}: {len(text):,} bytes, {len(compressed):,} compressed")


if __name__ == "__main__":
    main()
