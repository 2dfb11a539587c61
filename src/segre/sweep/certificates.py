"""Which certificates have the rows of a store? One file for each row, kept in a folder."""

from __future__ import annotations

from pathlib import Path

from segre.errors import SegreError
from segre.geometry.progress import Progress, quiet
from segre.sweep.store import Store
from segre.sweep.task import UNFINISHED


def keep(path: str | Path, folder: str | Path, progress: Progress = quiet) -> int:
    """Write the certificates that are not there yet, as DIGEST.json; how many there are then.

    Rows whose network is too large for a certificate have none.

    >>> from tempfile import TemporaryDirectory
    >>> from segre.sweep.run import run
    >>> fields = {"layers": 1, "d": "2..3", "a": 1, "t": 2}
    >>> with TemporaryDirectory() as place:
    ...     ran = run({"kind": "softmax", "exhaustive": True, "fields": fields}, f"{place}/s.db")
    ...     keep(f"{place}/s.db", f"{place}/proofs")
    2
    """
    from segre.certificate import certify, write_certificate

    with Store.open(path) as store:
        rows = [row for row in store.rows() if row.status not in UNFINISHED]
    Path(folder).mkdir(parents=True, exist_ok=True)
    kept = 0
    for done, row in enumerate(rows, 1):
        file = Path(folder) / f"{row.digest}.json"
        if not file.exists():
            try:
                write_certificate(certify(row.spec, row.seed), file)
            except SegreError:
                continue
        kept += 1
        progress("certificates", done, len(rows))
    return kept
