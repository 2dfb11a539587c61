"""By how much do tangent vectors raise a rank? Each must be orthogonal to rows of the Jacobian."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from flint import nmod_mat

from segre.referee.linear import Echelon
from segre.referee.meter import RESIDUES, charge
from segre.referee.network import Progress
from segre.referee.rejection import RejectionError
from segre.referee.transformers.point import Family, Tangent
from segre.referee.transformers.tensors import Tensors

CHUNK_ENTRIES = 1 << 20


def added(
    span: Echelon, vectors: Family, layout: Tensors, jacobian: nmod_mat, progress: Progress
) -> int:
    """By how much vectors raise the rank of a span."""
    columns = jacobian.transpose()
    rank = done = 0
    for chunk in chunks(vectors, layout, jacobian.modulus()):
        names, rows = chunk
        charge(RESIDUES.matmul(rows.nrows(), rows.ncols(), columns.ncols()))
        product = rows * columns
        if product:
            guilty = next(i for i, row in enumerate(product.tolist()) if any(row))
            raise RejectionError(
                f"symmetry {names[guilty]}: a vector changes an output of the network"
            )
        rank += span.add(rows)
        done += len(names)
        progress("symmetries", done, done)
    return rank


def chunks(
    vectors: Iterable[tuple[str, Tangent]], layout: Tensors, prime: int
) -> Iterator[tuple[list[str], nmod_mat]]:
    """Vectors as rows of matrices of bounded size, with their names."""
    width, offsets = layout.parameters, layout.offsets
    source = iter(vectors)
    while batch := list(islice(source, max(1, CHUNK_ENTRIES // width))):
        rows = nmod_mat(len(batch), width, prime)
        for i, (_, tangent) in enumerate(batch):
            charge(sum(m.nrows() * m.ncols() for m in tangent.values()) * RESIDUES.entry)
            for key, matrix in tangent.items():
                for j, entry in enumerate(matrix.entries(), start=offsets[key]):
                    if entry:
                        rows[i, j] = entry
        yield [name for name, _ in batch], rows
