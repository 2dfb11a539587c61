"""What a forward pass did: a list of maps that are affine in the tokens, and their transposes.

Once the patterns of heads, the gates of MLPs and the roots of norms are written down, every step
of a pass is affine in the tokens, which are rows here. Pulled back, a covector of the output
becomes one of the input: so a term of the output is followed to where it came from. All arrays may
have more axes in front: batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from segre.fields.interface import Array


@dataclass(frozen=True)
class Affine:
    """x_i -> (x_i A + a) * s_i for every token; what is None is left out."""

    A: Array | None = None  # (width, width')
    a: Array | None = None  # (width',)
    s: Array | None = None  # (n, width') or (n, 1)

    def apply(self, X: Array, constants: bool = True) -> Array:
        """The map, or its linear part."""
        out = X if self.A is None else X @ self.A
        if self.a is not None and constants:
            out = out + self.a[..., None, :]
        return out if self.s is None else out * self.s

    def pull(self, U: Array) -> Array:
        """The transpose of its linear part."""
        out = U if self.s is None else U * self.s
        return out if self.A is None else out @ self.A.swapaxes(-1, -2)


@dataclass(frozen=True)
class TokenMap:
    """What was done to each token by itself: affine steps, to which the input may be added.

    An MLP is W_1 and b_1 with its gates, then W_2 and b_2. A LayerNorm is the centring matrix
    with s = gain / deviation, then its bias.
    """

    steps: tuple[Affine, ...] = ()
    skip: bool = False

    def apply(self, X: Array, constants: bool = True) -> Array:
        """The map, or its linear part."""
        out = X
        for step in self.steps:
            out = step.apply(out, constants)
        return X + out if self.skip else out

    def pull(self, U: Array) -> Array:
        """The transpose of its linear part."""
        out = U
        for step in reversed(self.steps):
            out = step.pull(out)
        return U + out if self.skip else out


SAME = TokenMap()  # what leaves tokens as they are


@dataclass(frozen=True)
class RecordedLayer:
    """One layer of a pass: affine in the tokens, given the patterns that were recorded.

    Heads read `before` (norms and latents); what they write goes through `out`; then comes what
    goes `past` them, if there is a way: the skip, or an MLP beside them; then the maps `after`.
    """

    P: Array  # (H, n, n); every row sums to one: row = query, column = key
    W_V: Array  # (H, width of what is read, v)
    W_O: Array  # (H, v, d)
    b_V: Array | None = None  # (H, v)
    b_O: Array | None = None  # (d,)
    past: TokenMap | None = None
    before: TokenMap = SAME
    after: tuple[TokenMap, ...] = ()
    out: TokenMap = SAME

    @property
    def heads(self) -> int:
        """Number of heads."""
        return int(self.P.shape[-3])

    def apply(self, X: Array, constants: bool = True) -> Array:
        """The layer, or its linear part."""
        out = self.attention(X, constants)
        return self.finish(
            out if self.past is None else self.past.apply(X, constants) + out, constants
        )

    def attention(self, X: Array, constants: bool = True) -> Array:
        """What all heads write for tokens X, and b_O."""
        mixed = self._mixed(X, constants).swapaxes(-3, -2)
        mixed = mixed.reshape(*mixed.shape[:-2], -1)
        out = mixed @ self.W_O.reshape(*self.W_O.shape[:-3], -1, self.W_O.shape[-1])
        if self.b_O is not None and constants:
            out = out + self.b_O[..., None, :]
        return np.asarray(self.out.apply(out, constants))

    def written(self, X: Array) -> Array:
        """What each head writes for tokens X, biases aside: (H, ..., n, d)."""
        own = np.moveaxis(self._mixed(X, constants=False) @ self.W_O, -3, 0)
        return self.out.apply(own, constants=False)

    def _mixed(self, X: Array, constants: bool) -> Array:
        """Values as each head mixes them: (..., H, n, v)."""
        values = self.before.apply(X, constants)[..., None, :, :] @ self.W_V
        if self.b_V is not None and constants:
            values = values + self.b_V[..., None, :]
        return np.asarray(self.P @ values)

    def finish(self, X: Array, constants: bool = True) -> Array:
        """The maps after attention and skip."""
        for step in self.after:
            X = step.apply(X, constants)
        return X

    def pull_finish(self, U: Array) -> Array:
        """The transpose of the maps after attention and skip."""
        for step in reversed(self.after):
            U = step.pull(U)
        return U

    def pull_values(self, U: Array) -> Array:
        """The transpose of what is done to mixed values, for each head: (..., H, n, v)."""
        return np.asarray(self.out.pull(U)[..., None, :, :] @ self.W_O.swapaxes(-1, -2))

    def pull_heads(self, U: Array) -> Array:
        """The transpose of what all heads do, constants aside."""
        own = self.P.swapaxes(-1, -2) @ self.pull_values(U)
        read = (own @ self.W_V.swapaxes(-1, -2)).sum(axis=-3)
        return np.asarray(self.before.pull(read))

    def pull(self, U: Array) -> Array:
        """The transpose of the layer's linear part."""
        after = self.pull_finish(U)
        own = self.pull_heads(after)
        return own if self.past is None else own + self.past.pull(after)

    def along(self, X: Array, U: Array) -> Array:
        """Inner products of U with what each head writes for tokens X, biases aside: (..., H)."""
        mixed = self._mixed(X, constants=False)
        return np.asarray((mixed * self.pull_values(U)).sum(axis=(-2, -1)))


@dataclass(frozen=True)
class Pass:
    """One forward pass: the tokens that went in, the layers as they acted, what came out."""

    X: Array  # (n, d)
    layers: tuple[RecordedLayer, ...]
    output: Array  # (n, d)

    def replay(self, X: Array | None = None, constants: bool = True) -> list[Array]:
        """Tokens X before the first layer and after every layer, by the recorded maps.

        The maps were recorded of the tokens of the pass, which are X unless others are given;
        without constants only their linear parts are applied.
        """
        states = [self.X if X is None else X]
        for layer in self.layers:
            states.append(layer.apply(states[-1], constants))
        return states

    @property
    def constant(self) -> Array:
        """What the recorded maps give for tokens that are all zero: (n, d)."""
        return self.replay(np.zeros_like(self.X))[-1]

    def pull(self, U: Array) -> Array:
        """A covector (..., n, d) of the output, as one of the input."""
        for layer in reversed(self.layers):
            U = layer.pull(U)
        return U
