"""What does a network compute, step by step? A list of nodes, built once and read by many.

A node is a primitive applied to earlier nodes, or a leaf: the input, a weight, a constant. Its
value is an array, with tokens (columns) along the last axis wherever it has tokens. Numbers (mod p,
balls, floats) and abstract values (degrees, variations) are *interpreters*: one method for each
primitive.

| primitive | value | data |
|---|---|---|
| `input` | the input, rows x tokens | |
| `weight` | a tensor, declared at its first use | `Tensor` |
| `constant` | numbers that no weight changes | `Constant` |
| `contract` | einsum of two arrays | subscripts, as in "vk,kt->vt" |
| `total` | the sum over axes, which stay with size 1 | axes |
| `add`, `mul` | entry by entry, with broadcasting | |
| `scale` | times a number | Fraction, or the name of an irrational number |
| `inverse`, `root`, `exp`, `phi`, `step` | of every entry; phi is the normal cdf | |
| `take` | some places along an axis, in this order | (axis, places) |
| `join` | arrays one after the other along an axis | axis |
| `choose` | 1 for chosen experts (rows), 0 for others | `Choice` |

A function takes its salts from the stage of its node and the place along the last axis (the token).
A *region* is a run of nodes that a lemma treats as one: interpreters of numbers ignore it.

A layer of a toy network, y = W x / (1 + exp(-x)), with x a 2 x 3 matrix:

>>> graph = Graph(input_shape=(2, 3))
>>> W = graph.weight("1", "W", (4, 2))
>>> with graph.region("activation", [graph.input], kind="silu") as region:
...     minus = graph.scale(graph.input, Fraction(-1))
...     graph.argument(minus)
...     sigma = graph.inverse(graph.shift(graph.exp(minus), Fraction(1)))
...     region.output = graph.mul(graph.input, sigma)
>>> y = graph.contract("vk,kt->vt", W, region.output)
>>> graph.nodes[y].shape, graph.parameters, graph.arguments == [Argument(minus, None)]
((4, 3), 8, True)
>>> [graph.nodes[i].op for i in range(region.first, region.output + 1)]
['scale', 'exp', 'constant', 'add', 'inverse', 'mul']

An interpreter, here of shapes:

>>> class Shapes:
...     def __getattr__(self, op):
...         return lambda node, *values: node.shape
>>> evaluate(graph, Shapes())[y]
(4, 3)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partialmethod, reduce
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any

from segre.errors import TooLargeError
from segre.kernel.document import MOST_PARAMETERS
from segre.kernel.meter import meter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Shape = tuple[int, ...]
MOST_NODES = 400_000
_ENTRY_BYTES = 64  # of a value, with all that is made on the way
Irrational = tuple[Any, ...]  # a name and its numbers, see constants.py
Place = tuple[str, str]  # part ("embed", "1", "2", ..., "head") and name of a tensor


@dataclass(frozen=True, slots=True)
class Tensor:
    """A weight tensor; its entries are row-major, from `offset` on, in the vector of weights."""

    part: str
    name: str
    shape: Shape
    offset: int
    node: int

    @property
    def place(self) -> Place:
        """Where it is found."""
        return self.part, self.name

    @property
    def size(self) -> int:
        """The number of its entries."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Rate:
    """A decay rate exp(-factor 2^-exponent); `fine` is a denominator of all factors."""

    exponent: Fraction
    factor: Fraction = Fraction(1)
    fine: int = 1


@dataclass(frozen=True, slots=True)
class Constant:
    """Numbers that no weight changes: `kind` says how they follow from `data`.

    | kind | data | value |
    |---|---|---|
    | `rational` | a Fraction | that number everywhere |
    | `seen` | Seen | 1 or 0 for keys and queries |
    | `powers` | (rates, Seen) | (head, key, query): rate^(query - key) where seen, else 0 |
    | `ago` | Seen | (n, key, query): 1 where seen and query - key = n, else 0 |
    | `cos`, `sin` | the spec of a layer | C and D: rotated x is C x + D (x with planes exchanged) |
    """

    kind: str
    data: Any


@dataclass(frozen=True, slots=True)
class Choice:
    """How a token chooses experts: `active` of them, only in its `within` best groups."""

    active: int
    groups: int = 0
    within: int = 0


@dataclass(frozen=True, slots=True)
class Node:
    """A primitive, the nodes it is applied to, and the shape of its value."""

    op: str
    args: tuple[int, ...]
    shape: Shape
    stage: int
    data: Any = None


@dataclass(slots=True)
class Region:
    """The nodes from `first` to `output`, which a lemma treats as one function of `inputs`."""

    name: str
    first: int
    inputs: tuple[int, ...]
    params: dict[str, Any]
    output: int = -1


@dataclass(frozen=True, slots=True)
class Seen:
    """Which keys (rows) a query (column) sees: not after it, within reach, in the same block."""

    keys: int
    queries: int
    causal: bool = False
    reach: int | None = None
    block: int | None = None

    @property
    def all(self) -> bool:
        """Whether no key is hidden."""
        return not self.causal and self.reach is None and self.block is None

    def table(self) -> NDArray[np.bool_]:
        """The answer for every key and query."""
        import numpy as np  # not needed by who only counts weights

        key, query = np.ogrid[: self.keys, : self.queries]
        seen = np.ones((self.keys, self.queries), bool)
        if self.causal:
            seen &= key <= query
        if self.reach is not None:
            seen &= abs(query - key) <= self.reach
        if self.block is not None:
            seen &= key // self.block == query // self.block
        return seen


@dataclass(frozen=True, slots=True)
class Argument:
    """A node whose entries are arguments of exponentials: of scores, those that are seen."""

    node: int
    seen: Seen | None


@dataclass
class Graph:
    """A network: nodes in an order in which they can be evaluated."""

    input_shape: Shape
    blocks: tuple[int, ...] = ()  # rows of the input: words, and their types; of a matrix none
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[Place, Tensor] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    arguments: list[Argument] = field(default_factory=list)
    stage: int = 0
    output: int = -1
    parameters: int = 0  # the number of weights

    def __post_init__(self) -> None:
        self.input = self._write("input", (), self.input_shape)

    @property
    def stages(self) -> int:
        """The number of stages; source 0 of salts is the input, source j + 1 stage j."""
        return max(node.stage for node in self.nodes) + 1

    @property
    def roots(self) -> list[tuple[int, int, int]]:
        """The nodes under square roots, as (node of the root, stage, number in the stage)."""
        found, counts = [], [0] * self.stages
        for number, node in enumerate(self.nodes):
            if node.op == "root":
                found.append((number, node.stage, counts[node.stage]))
                counts[node.stage] += 1
        return found

    @property
    def constants(self) -> list[Node]:
        """The nodes that no weight changes and no input."""
        return [node for node in self.nodes if node.op == "constant"]

    def _write(self, op: str, args: tuple[int, ...], shape: Shape, data: Any = None) -> int:
        self.require(shape)
        self.nodes.append(Node(op, args, shape, self.stage, data))
        return len(self.nodes) - 1

    def require(self, shape: Shape) -> None:
        """Refuse one more value of this shape, if it would be too much."""
        if len(self.nodes) == MOST_NODES:
            raise TooLargeError(f"the network takes more than {MOST_NODES} operations")
        if self.parameters > MOST_PARAMETERS:
            raise TooLargeError(
                f"the network has more than {MOST_PARAMETERS} parameters: certificates are "
                "checked up to that"
            )
        meter().require_bytes(_ENTRY_BYTES * prod(shape))

    def shape(self, node: int) -> Shape:
        """The shape of a node's value."""
        return self.nodes[node].shape

    # Leaves.

    def weight(self, part: str, name: str, shape: Shape) -> int:
        """A tensor of weights; the vector of weights lists tensors as they are first named here."""
        place = part, name
        if place not in self.tensors:
            tensor = Tensor(part, name, shape, self.parameters, len(self.nodes))
            self.parameters += tensor.size
            self.tensors[place] = tensor
            self._write("weight", (), shape, tensor)
        return self.tensors[place].node

    def constant(self, kind: str, data: Any, shape: Shape) -> int:
        """Numbers that no weight changes."""
        return self._write("constant", (), shape, Constant(kind, data))

    # Linear algebra.

    def contract(self, subscripts: str, a: int, b: int) -> int:
        """Einsum of two nodes; a letter is summed over if both have it, or if its size is 1."""
        sides, result = subscripts.split("->")
        sizes: dict[str, int] = {}
        left, right = sides.split(",")
        for letters, arg in ((left, a), (right, b)):
            for letter, size in zip(letters, self.shape(arg), strict=True):
                alone = letter not in result and not (letter in left and letter in right)
                if sizes.setdefault(letter, size) != size or (alone and size > 1):
                    raise ValueError(f"{subscripts} of {self.shape(a)} and {self.shape(b)}")
        shape = tuple(sizes[letter] for letter in result)
        return self._write("contract", (a, b), shape, subscripts)

    def total(self, a: int, *axes: int) -> int:
        """The sum over axes (counted from the end, below 0), which stay with size 1."""
        shape = self.shape(a)
        left = (1 if i - len(shape) in axes else size for i, size in enumerate(shape))
        return self._write("total", (a,), tuple(left), axes)

    def add(self, a: int, b: int) -> int:
        """The sum, entry by entry."""
        return self._write("add", (a, b), broadcast(self.shape(a), self.shape(b)))

    def mul(self, a: int, b: int) -> int:
        """The product, entry by entry."""
        return self._write("mul", (a, b), broadcast(self.shape(a), self.shape(b)))

    def scale(self, a: int, number: Fraction | Irrational) -> int:
        """Times a rational number or a named irrational one."""
        return self._write("scale", (a,), self.shape(a), number)

    def shift(self, a: int, number: Fraction) -> int:
        """Plus a rational number in every entry."""
        return self.add(a, self.constant("rational", number, (1,)))

    def sum(self, terms: Sequence[int]) -> int:
        """The sum of nodes, at least one."""
        return reduce(self.add, terms)

    # Functions of every entry.

    def _each(self, a: int, *, op: str) -> int:
        return self._write(op, (a,), self.shape(a))

    inverse = partialmethod(_each, op="inverse")
    root = partialmethod(_each, op="root")
    exp = partialmethod(_each, op="exp")
    phi = partialmethod(_each, op="phi")
    step = partialmethod(_each, op="step")

    def choose(self, affinities: int, choice: Choice) -> int:
        """1 for the chosen experts of every token, 0 for the others; its derivative is zero."""
        return self._write("choose", (affinities,), self.shape(affinities), choice)

    # Places.

    def take(self, a: int, axis: int, places: Sequence[int]) -> int:
        """Some places along an axis (counted from the end, below 0), in this order."""
        shape = list(self.shape(a))
        shape[axis] = len(places)
        return self._write("take", (a,), tuple(shape), (axis, tuple(places)))

    def join(self, axis: int, args: Sequence[int]) -> int:
        """Arrays one after the other along an axis (counted from the end, below 0)."""
        shape = list(self.shape(args[0]))
        shape[axis] = sum(self.shape(arg)[axis] for arg in args)
        return self._write("join", tuple(args), tuple(shape), axis)

    # What is recorded.

    def argument(self, a: int, seen: Seen | None = None) -> None:
        """Note that entries of a node are arguments of exponentials, in row-major order."""
        self.arguments.append(Argument(a, seen))

    @contextmanager
    def region(self, name: str, inputs: Sequence[int], **params: Any) -> Iterator[Region]:
        """A region: the nodes written inside; whoever writes them sets its output."""
        region = Region(name, len(self.nodes), tuple(inputs), params)
        yield region
        if region.first < len(self.nodes):
            self.regions.append(region)


def broadcast(a: Shape, b: Shape) -> Shape:
    """The shape of an operation entry by entry: axes are matched from the last one."""
    pairs = list(zip_longest(reversed(a), reversed(b), fillvalue=1))
    if any(x != y and 1 not in (x, y) for x, y in pairs):
        raise ValueError(f"{a} and {b}")
    return tuple(max(pair) for pair in reversed(pairs))


def evaluate(graph: Graph, interpreter: Any) -> list[Any]:
    """The values of all nodes; an interpreter has a method (node, *values) for each primitive."""
    values: list[Any] = []
    for node in graph.nodes:
        values.append(getattr(interpreter, node.op)(node, *(values[arg] for arg in node.args)))
    return values
