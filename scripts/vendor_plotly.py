"""Renew the parts of plotly.js that pages carry: src/segre/report/page/plotly/.

python scripts/vendor_plotly.py

The files come from the npm packages plotly.js-cartesian-dist-min and plotly.js-gl3d-dist-min of the
version below, fetched by `npm pack`; they are compressed so that the same version always gives the
same bytes. Run this after a change of the version.
"""

from __future__ import annotations

import gzip
import subprocess
import tarfile
import tempfile
from pathlib import Path

VERSION = "4.1.1"
BUNDLES = ("cartesian", "gl3d")
HOME = Path(__file__).parent.parent / "src" / "segre" / "report" / "page" / "plotly"


def main() -> None:
    """Fetch the packages, and keep the scripts and their licence."""
    HOME.mkdir(exist_ok=True)
    for name in BUNDLES:
        with tempfile.TemporaryDirectory() as folder:
            wanted = f"plotly.js-{name}-dist-min@{VERSION}"
            subprocess.run(["npm", "pack", wanted], cwd=folder, check=True, capture_output=True)
            (archive,) = Path(folder).glob("*.tgz")
            with tarfile.open(archive) as packed:
                packed.extractall(folder, filter="data")
            package = Path(folder) / "package"
            text = (package / f"plotly-{name}.min.js").read_bytes()
            compressed = gzip.compress(text, compresslevel=9, mtime=0)
            (HOME / f"plotly-{name}.min.js.gz").write_bytes(compressed)
            (HOME / "LICENSE").write_bytes((package / "LICENSE").read_bytes())
        print(f"{wanted}: {len(text):,} bytes, {len(compressed):,} compressed")


if __name__ == "__main__":
    main()
