"""A transformer one number at a time: nested lists and loops, over floats or dual residues."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

from segre.kernel.graph import Graph
from segre.transformer.spec import Transformer

EMBED, HEAD = "embed", "head"
Column = list[Any]


def u(seed: int, stream: int, i: int) -> int:
    """The numbers that certificates draw, by their definition."""

    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    golden = 0x9E3779B97F4A7C15
    return mix((mix((seed + (stream + 1) * golden) % 2**64) + (i + 1) * golden) % 2**64)


def routed(spec: Transformer, layer: int) -> bool:
    """Whether the MLP of a layer chooses experts."""
    dense = spec.dense
    own = dense[(layer - 1) % len(dense)] if isinstance(dense, tuple) else layer <= dense
    return bool(spec.experts and not own)


class Reals:
    """Floats with the functions of calculus."""

    def weights(self, graph: Graph, seed: int) -> list[float]:
        result = []
        for tensor in graph.tensors.values():
            for j in range(tensor.offset, tensor.offset + tensor.size):
                value = ((u(seed, 0, j) >> 43) - 2**20) / 2**20
                result.append(1 + value / 2 if tensor.name.endswith(".gain") else value)
        return result

    def constant(self, x: Any) -> float:
        return float(x)

    def exp(self, z: float, stage: int, token: int) -> float:
        return math.exp(z)

    def phi(self, z: float, stage: int, token: int) -> float:
        return (1 + math.erf(z / math.sqrt(2))) / 2

    def step(self, z: float, stage: int, token: int) -> float:
        return float(z > 0)

    def scores(self, s: list[float], stage: int, token: int) -> list[float]:
        return s

    def order(self, s: list[float], stage: int, token: int) -> list[int]:
        return sorted(range(len(s)), key=lambda i: -s[i])

    def sqrt(self, q: float) -> float:
        return math.sqrt(q)

    def two_over_pi(self) -> float:
        return math.sqrt(2 / math.pi)

    def width(self, d: int) -> float:
        return math.sqrt(d)

    def turn(self, spec: Transformer, i: int, position: int) -> tuple[float, float]:
        angle = position * spec.base ** (-2 * i / spec.rotary) * float(slowed(spec, i)[0])
        return amplitude(spec) * math.cos(angle), amplitude(spec) * math.sin(angle)

    def scale(self, spec: Transformer, layer: int) -> float:
        width = spec.head + (spec.rotary if spec.kvrank else 0)
        out = math.sqrt(width / spec.scale) if spec.scale else 1.0
        if spec.kvrank and spec.rescaling is not None:
            out *= (1 + float(spec.rescaling.all) / 10 * math.log(spec.rescaling.factor)) ** 2
        return out / layer if spec.bylayer else out

    def decay(self, head: int, heads: int, layer: int, layers: int) -> float:
        factor = 1 - (layer - 1) / (layers - 1 + 1e-5) + 1e-5
        return math.exp(-factor * 2 ** (-8 * head / heads))


class Dual:
    """x + y eps mod p, eps^2 = 0."""

    p = 2147483647

    def __init__(self, x: int, y: int = 0) -> None:
        self.x, self.y = x % self.p, y % self.p

    def _other(self, other: Any) -> Dual:
        return other if isinstance(other, Dual) else Dual(other)

    def __add__(self, other: Any) -> Dual:
        other = self._other(other)
        return Dual(self.x + other.x, self.y + other.y)

    def __mul__(self, other: Any) -> Dual:
        other = self._other(other)
        return Dual(self.x * other.x, self.x * other.y + self.y * other.x)

    def __truediv__(self, other: Any) -> Dual:
        other = self._other(other)
        inverse = pow(other.x, -1, self.p)
        return self * Dual(inverse, -other.y * inverse * inverse)

    def __neg__(self) -> Dual:
        return self * -1

    def __sub__(self, other: Any) -> Dual:
        return self + self._other(other) * -1

    __radd__, __rmul__ = __add__, __mul__

    def __rtruediv__(self, other: Any) -> Dual:
        return self._other(other) / self


class Residues:
    """Dual residues with the functions of section 4 of the page."""

    def __init__(self, seed: int, salts: list[list[int]]) -> None:
        self.seed, self.salts, self.p = seed, salts, Dual.p

    def u(self, stream: int, i: int) -> int:
        return u(self.seed, stream, i)

    def constant(self, x: Any) -> Dual:
        return Dual(x.numerator) / x.denominator

    def _at(self, stream: int, z: Dual, stage: int, token: int) -> int:
        return self.u(stream, z.x + self.salts[stage + 1][token] * 2**32)

    def exp(self, z: Dual, stage: int, token: int) -> Dual:
        value = 1 if z.x == 0 else 1 + self._at(2, z, stage, token) % (self.p - 1)
        return Dual(value, value * z.y)

    def phi(self, z: Dual, stage: int, token: int) -> Dual:
        slope = 1 + self._at(7, z, stage, token) % (self.p - 1)
        return Dual(self._at(6, z, stage, token), slope * z.y)

    def step(self, z: Dual, stage: int, token: int) -> Dual:
        return Dual(self._at(10, z, stage, token) % 2)

    def scores(self, s: list[Dual], stage: int, token: int) -> list[int]:
        return [self._at(10, z, stage, token) // 2**12 for z in s]

    def order(self, s: list[Dual], stage: int, token: int) -> list[int]:
        drawn = self.scores(s, stage, token)
        return sorted(range(len(s)), key=lambda i: (-drawn[i], i))

    def sqrt(self, q: Dual) -> Dual:
        """A root, or that of -q: the derivative is that of a root in both cases."""
        root = pow(q.x, (self.p + 1) // 4, self.p)
        return Dual(root, q.y * root * pow(2 * q.x, -1, self.p))

    def two_over_pi(self) -> Dual:
        return Dual(self.u(9, 5))

    def width(self, d: int) -> Dual:
        return Dual(self.u(9, 2 * d))

    def turn(self, spec: Transformer, i: int, position: int) -> tuple[Dual, Dual]:
        g, b = power(spec.base)
        n = spec.rotary // 2
        m = n // math.gcd(n, g)
        C, N = i, Fraction(1)
        if all(slowed(spec, j)[1] for j in range(n)):
            C = i % m
            quick = {
                j: (b ** (g // math.gcd(n, g))) ** ((n - 1 - j) // m) * Fraction(slowed(spec, j)[0])
                for j in range(C, n, m)
            }
            whole = math.lcm(*(x.denominator for x in quick.values()))
            N = quick[i] * whole / math.gcd(*(int(x * whole) for x in quick.values()))
        assert N.denominator == 1
        s = Dual(self.u(8, C))
        x, y = (1 + -(s * s)) / (1 + s * s), 2 * s / (1 + s * s)
        cos, sin = Dual(1), Dual(0)
        for _ in range(int(N) * position):
            cos, sin = cos * x - sin * y, cos * y + sin * x
        return cos, sin

    def scale(self, spec: Transformer, layer: int) -> Dual:
        return Dual(1)

    def decay(self, head: int, heads: int, layer: int, layers: int) -> Dual:
        whole, left = divmod(8 * head, heads)
        g = Fraction(left, heads)
        base = 1 + self.u(12, g.denominator * 2**20 + g.numerator) % (self.p - 1)
        small = Fraction(1, 10**5)
        factor = 1 - (layer - 1) / (layers - 1 + small) + small
        n = factor * 2**16 * 10**5 * (10**5 * (layers - 1) + 1) / 2**whole
        assert n.denominator == 1
        return Dual(pow(base, n.numerator, self.p))


def slowed(spec: Transformer, i: int) -> tuple[Any, bool]:
    """By what the frequency of plane i is multiplied, and whether that is a rational number."""
    how, r = spec.rescaling, spec.rotary
    if how is None:
        return Fraction(1), True
    if how.kind == "linear":
        return 1 / how.factor, True
    if how.kind == "longrope":
        return 1 / (how.long if spec.t > how.length else how.short)[i], True
    if how.kind == "dynamic":
        if spec.t <= how.length:
            return Fraction(1), True
        longer = how.factor * spec.t / how.length - (how.factor - 1)
        grown = spec.base * longer ** (r / (r - 2))
        return (grown / spec.base) ** (-2 * i / r), False
    if how.kind == "llama3":
        f = spec.base ** (-2 * i / r)
        wavelength = 2 * math.pi / f
        if wavelength < how.length / how.high:
            return Fraction(1), True
        if wavelength > how.length / how.low:
            return 1 / how.factor, True
        smooth = (how.length / wavelength - how.low) / (how.high - how.low)
        return (1 - smooth) / how.factor + smooth, False

    def dimension(turns: Any) -> float:
        return r * math.log(how.length / (turns * 2 * math.pi)) / (2 * math.log(spec.base))

    if not how.truncate:
        first, last = max(dimension(how.fast), 0.0), min(dimension(how.slow), r - 1.0)
        slope = min(max((i - first) / (last - first), 0.0), 1.0)
        return slope / float(how.factor) + (1 - slope), False
    low = max(math.floor(dimension(how.fast)), 0)
    high = Fraction(min(math.ceil(dimension(how.slow)), r - 1))
    high += Fraction(low == high, 1000)
    ramp = min(max((i - low) / (high - low), Fraction(0)), Fraction(1))
    return ramp / how.factor + (1 - ramp), True


def amplitude(spec: Transformer) -> float:
    """By what yarn and longrope multiply cos and sin."""
    how = spec.rescaling
    if how is None or how.kind not in ("yarn", "longrope"):
        return 1.0
    if how.attention:
        return float(how.attention)
    log = math.log(how.factor)
    if how.kind == "longrope":
        return math.sqrt(1 + log / math.log(how.length))
    if how.mscale and how.all:
        return (0.1 * float(how.mscale) * log + 1) / (0.1 * float(how.all) * log + 1)
    return 0.1 * log + 1


@cache
def power(base: int) -> tuple[int, int]:
    return next((g, b) for g in range(30, 0, -1) for b in range(2, base + 1) if b**g == base)


class Scalar:
    """The network of section 3."""

    def __init__(self, spec: Transformer, graph: Graph, weights: list[Any], F: Any) -> None:
        self.s, self.graph, self.w, self.F, self.stage = spec, graph, weights, F, 0
        self.layer = 0

    def W(self, part: int | str, name: str, number: int = 0) -> list[list[Any]] | None:
        tensor = self.graph.tensors.get((str(part), name))
        if tensor is None:
            return None
        *_, rows, n = tensor.shape
        start = tensor.offset + number * rows * n
        return [self.w[start + r * n : start + (r + 1) * n] for r in range(rows)]

    def linear(self, x: Column, part: int, name: str, number: int = 0) -> Column:
        matrix, bias = self.W(part, name, number), self.W(part, "b" + name[1:], number)
        assert matrix is not None
        out = [dot(row, x) for row in matrix]
        bias = self.W(part, "c" + name[1:], number) if bias is None else bias
        if bias is not None and name[0] == "W":
            out = [y + b[0] for y, b in zip(out, bias, strict=True)]
        return out

    def norm(self, x: Column, part: int, name: str, kind: str) -> Column:
        if kind == "layer":
            mean = sum(x[1:], x[0]) / len(x)
            x = [a - mean for a in x]
        q = dot(x, x) / len(x) + self.F.constant(self.s.eps)
        x = [a / self.F.sqrt(q) for a in x]
        if (gain := self.W(part, name + ".gain")) is not None:
            x = [a * g[0] for a, g in zip(x, gain, strict=True)]
        if (bias := self.W(part, name + ".bias")) is not None:
            x = [a + b[0] for a, b in zip(x, bias, strict=True)]
        return x

    def together(
        self, X: list[Column], part: int, head: int, name: str, heads: int
    ) -> list[Column]:
        """Queries or keys of a head, over the root of the mean square of those of all heads."""
        out = []
        for x in X:
            every = [self.linear(x, part, f"W_{name}", i) for i in range(heads)]
            flat = [a for y in every for a in y]
            q = dot(flat, flat) / len(flat) + self.F.constant(self.s.eps)
            y = [a / self.F.sqrt(q) for a in every[head]]
            if (gain := self.W(part, f"norm{name.lower()}.gain", head)) is not None:
                y = [a * g[0] for a, g in zip(y, gain, strict=True)]
            out.append(y)
        return out

    def sigma(self, z: Any, c: int) -> Any:
        return 1 / (1 + self.F.exp(-z, self.stage, c))

    def tanh(self, z: Any, c: int) -> Any:
        return 2 * self.sigma(2 * z, c) + self.F.constant(-1)

    def act(self, z: Any, c: int) -> Any:
        kind, F = self.s.mlp, self.F
        if kind in ("gelu", "geglu"):
            return z * F.phi(z, self.stage, c)
        if kind in ("gelu-tanh", "geglu-tanh"):
            cubic = z + z * z * z * F.constant(44715) / F.constant(10**6)
            return z / F.constant(2) * (1 + self.tanh(F.two_over_pi() * cubic, c))
        if kind in ("silu", "swiglu"):
            return z * self.sigma(z, c)
        if kind in ("gelu-quick", "geglu-quick", "clamped"):
            return z * self.sigma(F.constant(1702) / F.constant(1000) * z, c)
        if kind in ("relu", "reglu", "relu2"):
            y = z * F.step(z, self.stage, c)
            return y * y if kind == "relu2" else y
        return z

    def here(self) -> Transformer:
        """The spec with the rotations of this layer; base 0 is none."""
        if self.s.pos != "rope":
            return replace(self.s, base=0)
        if isinstance(self.s.attn, tuple) and self.own().attn == "lightning":
            return replace(self.s, base=0, rescale="", scale=Fraction(0), bylayer=False)
        base, how = (
            x[(self.layer - 1) % len(x)] if isinstance(x, tuple) else x
            for x in (self.s.base, self.s.rescale)
        )
        return replace(self.s, base=base, rescale=how)

    def own(self) -> Transformer:
        """The spec with the mechanism of this layer."""
        if isinstance(self.s.attn, str):
            return self.s
        if self.s.attn[(self.layer - 1) % len(self.s.attn)] == "lightning":
            return replace(self.s, attn="lightning", kv=self.s.heads, window=())
        plain = replace(self.s, attn="softmax", gate="none", feature="none")
        return replace(plain, mixnorm=False, decay="none")

    def rotate(self, x: Column, position: int) -> Column:
        here = self.here()
        r = here.rotary if here.base else 0
        x = list(x)
        for i in range(r // 2):
            a, b = (i, i + r // 2) if self.s.layout == "half" else (2 * i, 2 * i + 1)
            cos, sin = self.F.turn(here, i, position)
            x[a], x[b] = x[a] * cos - x[b] * sin, x[b] * cos + x[a] * sin
        return x

    def attention(self, X: list[Column], part: int) -> list[Column]:
        self.layer += 1
        s, t = self.own(), self.s.t
        window = s.window[(self.layer - 1) % len(s.window)] if s.window else 0
        G = s.heads // s.kv
        out: list[Column | None] = [None] * t
        every: list[list[Column]] = [[] for _ in range(t)]
        for h in range(s.heads):
            g = h // G
            extra = [[self.F.constant(0)] * t for _ in range(t)]
            if s.kvrank:
                a = X
                if s.qrank:
                    a = [self.norm(self.linear(x, part, "A_Q"), part, "normq", "rms") for x in X]
                c = [self.norm(self.linear(x, part, "A_K"), part, "normk", "rms") for x in X]
                K = [self.linear(x, part, "W_K", h) for x in c]
                Q = [self.linear(x, part, "W_Q", h) for x in a]
                V = [self.linear(x, part, "W_V", h) for x in c]
                if s.pos == "rope":
                    RK = [self.rotate(self.linear(x, part, "R_K"), i) for i, x in enumerate(X)]
                    RQ = [self.rotate(self.linear(x, part, "R_Q", h), i) for i, x in enumerate(a)]
                    extra = [[dot(k, q) for q in RQ] for k in RK]
            else:
                K = [self.linear(x, part, "W_K", g) for x in X]
                Q = [self.linear(x, part, "W_Q", h) for x in X]
                V = [self.linear(x, part, "W_V", g) for x in X]
                if s.feature == "silu":
                    K, Q, V = (
                        [[z * self.sigma(z, c) for z in y] for c, y in enumerate(own)]
                        for own in (K, Q, V)
                    )
                if s.qknorm == "all":
                    K, Q = (
                        self.together(X, part, g, "K", s.kv),
                        self.together(X, part, h, "Q", s.heads),
                    )
                elif s.qknorm:
                    K = [self.norm(k, part, "normk", "rms") for k in K]
                    Q = [self.norm(q, part, "normq", "rms") for q in Q]
                K = [self.rotate(k, i) for i, k in enumerate(K)]
                Q = [self.rotate(q, i) for i, q in enumerate(Q)]
            for q in range(t):
                keys = range(q + 1) if s.causal else range(t)
                keys = range(max(0, q - window + 1), q + 1) if window else keys
                factor = self.F.scale(self.here(), self.layer)
                Z = [factor * (dot(K[k], Q[q]) + extra[k][q]) for k in keys]
                if s.decay == "slopes":
                    rate = self.F.decay(h + 1, s.heads, self.layer, s.layers)
                    for k in keys:
                        for _ in range(q - k):
                            Z[k] = Z[k] * rate
                if s.attn == "softmax":
                    if s.cap:
                        cap = self.F.constant(s.cap)
                        Z = [cap * self.tanh(z / cap, q) for z in Z]
                    total = self.F.constant(0)
                    if s.sinks:
                        sink = (self.W(part, "sinks", h) or [[]])[0][0]
                        Z, total = [z - sink for z in Z], self.F.constant(1)
                    E = [self.F.exp(z, self.stage, q) for z in Z]
                    Z = [e / sum(E, total) for e in E]
                every[q].append([dot(Z, [V[k][j] for k in keys]) for j in range(s.dv)])
        for q, h in product(range(t), range(s.heads)):
            mixed = every[q][h]
            if s.mixnorm:
                flat = [a for y in every[q] for a in y]
                root = self.F.sqrt(dot(flat, flat) / len(flat) + self.F.constant(s.mixeps or s.eps))
                gain = self.W(part, "normo.gain", h) or [[self.F.constant(1)]] * s.dv
                mixed = [a / root * b[0] for a, b in zip(mixed, gain, strict=True)]
            if s.gate != "none":
                gate = [self.sigma(z, q) for z in self.linear(X[q], part, "W_G", h)]
                gate = gate if s.gate == "element" else gate * s.dv
                mixed = [a * b for a, b in zip(gate, mixed, strict=True)]
            y = [dot(row, mixed) for row in self.W(part, "W_O", h) or []]
            known = out[q]
            out[q] = y if known is None else add(known, y)
        bias = self.W(part, "b_O")
        return [y if bias is None else add(y, [b[0] for b in bias]) for y in out if y is not None]

    def expert(self, x: Column, c: int, part: int, letter: str, number: int) -> Column:
        gate = self.linear(x, part, letter + "_gate", number)
        up = self.linear(x, part, letter + "_up", number)
        if self.s.mlp == "clamped":
            gate = [z - self.over(z, c) for z in gate]
            up = [z - self.over(z, c) + self.over(-z, c) + self.F.constant(1) for z in up]
        gate = [self.act(z, c) for z in gate]
        hidden = [a * b for a, b in zip(gate, up, strict=True)]
        return self.linear(hidden, part, letter + "_down", number)

    def reachable(self, a: Column, order: list[int], c: int) -> list[int]:
        """Of the experts in order, those of the groups that a token may use."""
        size = self.s.experts // self.s.groups
        score = self.F.scores(a, self.stage, c)
        sums = [0] * self.s.groups
        for g in range(self.s.groups):
            sums[g] = sum(sorted(score[g * size : (g + 1) * size])[-2:])
        best = sorted(range(self.s.groups), key=lambda g: -sums[g])[: self.s.within]
        return [i for i in order if i // size in best]

    def over(self, z: Any, c: int) -> Any:
        more = z - self.F.constant(self.s.limit)
        return more * self.F.step(more, self.stage, c)

    def mlp(self, X: list[Column], part: int) -> list[Column]:
        s = self.s
        if not routed(s, part):
            if s.gated:
                return [self.expert(x, c, part, "W", 0) for c, x in enumerate(X)]
            hidden = [
                [self.act(z, c) for z in self.linear(x, part, "W_up")] for c, x in enumerate(X)
            ]
            return [self.linear(h, part, "W_down") for h in hidden]
        out = []
        for c, x in enumerate(X):
            a = [self.linear(x, part, "W_R", i)[0] for i in range(s.experts)]
            if s.router in ("sigmoid", "sigmoid-raw"):
                a = [self.sigma(z, c) for z in a]
            chosen = self.F.order(a, self.stage, c)
            if s.groups:
                chosen = self.reachable(a, chosen, c)
            chosen = chosen[: s.active]
            if s.router in ("softmax", "softmax-raw"):
                a = [self.F.exp(z, self.stage, c) for z in a]
            summed = a if s.router == "softmax-raw" else [a[i] for i in chosen]
            total = sum(summed[1:], summed[0])
            if s.router == "sigmoid-raw":
                total = self.F.constant(1)
            y = self.expert(x, c, part, "S", 0) if s.shared else [self.F.constant(0)] * s.d
            if s.sharedgate:
                share = self.sigma(self.linear(x, part, "S_R")[0], c)
                y = [share * z for z in y]
            for i in chosen:
                y = add(y, [a[i] / total * z for z in self.expert(x, c, part, "W", i)])
            out.append(y)
        return out

    def sublayer(self, X: list[Column], part: int, name: str, number: int) -> list[Column]:
        s = self.s
        normed = s.norm != "none"
        Y = X
        if normed and s.place in ("pre", "sandwich"):
            Y = [self.norm(x, part, f"norm{number}", s.norm) for x in X]
        Y = getattr(self, name)(Y, part)
        if (scale := self.W(part, f"scale{number}")) is not None:
            Y = [[a * b[0] for a, b in zip(y, scale, strict=True)] for y in Y]
        if normed and s.place in ("sandwich", "after"):
            Y = [self.norm(y, part, f"post{number}", s.norm) for y in Y]
        if s.skip != 1:
            X = [[self.F.constant(s.skip) * a for a in x] for x in X]
        if s.residual:
            Y = [add(x, y) for x, y in zip(X, Y, strict=True)]
        if normed and s.place == "post":
            Y = [self.norm(y, part, f"post{number}", s.norm) for y in Y]
        self.stage += 1
        return Y

    def parallel(self, X: list[Column], part: int) -> list[Column]:
        out = X
        for name, norm in (("attention", "norm1"), ("mlp", "norm2")):
            Y = X
            if self.s.norm != "none":
                Y = [self.norm(x, part, norm, self.s.norm) for x in X]
            Y = getattr(self, name)(Y, part)
            out = [add(x, y) for x, y in zip(out, Y, strict=True)]
        self.stage += 1
        return out

    def __call__(self, X: list[Column]) -> list[Column]:
        s = self.s
        tables = {name: self.W(EMBED, name) for name in ("tokens", "positions", "types")}
        if s.vocab or tables["positions"] is not None:
            out = []
            for c, x in enumerate(X):
                y = x
                if s.vocab:
                    y = [dot(row, x[: s.vocab]) for row in tables["tokens"] or []]
                    y = [a * self.F.width(s.d) for a in y] if s.embscale else y
                if s.patch:
                    first = self.W(EMBED, "cls") if c == 0 else None
                    y = [b[0] for b in first] if first else self.linear(x, EMBED, "W_P")
                if s.project:
                    y = self.linear(y, EMBED, "W_E")
                if tables["positions"] is not None:
                    y = add(y, [row[c] for row in tables["positions"]])
                if tables["types"] is not None:
                    y = add(y, [dot(row, x[s.vocab :]) for row in tables["types"]])
                if s.embnorm:
                    y = self.norm(y, EMBED, "norm", s.norm)
                out.append(self.linear(y, EMBED, "W_E") if s.embed and not s.project else y)
            X = out
            self.stage += 1
        for layer in range(1, s.layers + 1):
            part = 1 if s.share else layer
            if s.parallel:
                X = self.parallel(X, part)
                continue
            X = self.sublayer(X, part, "attention", 1)
            if s.mlp != "none":
                X = self.sublayer(X, part, "mlp", 2)
        return self.head(X)

    def head(self, X: list[Column]) -> list[Column]:
        s = self.s
        if s.final:
            X = [self.norm(x, HEAD, "norm", s.norm) for x in X]
        if s.project:
            X = [self.linear(x, HEAD, "W_D") for x in X]
        pooled = []
        if s.pooler:
            pooled = [[self.tanh(z, 0) for z in self.linear(X[0], HEAD, "W_pool")]]
        if s.labels:
            if s.read != "all":
                X = [X[0 if s.read == "first" else -1]]
            read = [self.transformed(x, c) for c, x in enumerate(pooled or X)]
            return [self.share(self.linear(x, HEAD, "W_U"), c) for c, x in enumerate(read)]
        if s.output == "hidden":
            return [*X, *pooled]
        out = []
        for c, x in enumerate(X):
            y = self.transformed(x, c)
            if s.tied:
                table = self.W(EMBED, "tokens") or []
                y = [dot([row[v] for row in table], y) for v in range(s.vocab)]
                bias = self.W(HEAD, "b_U")
                y = y if bias is None else add(y, [b[0] for b in bias])
            else:
                y = self.linear(y, HEAD, "W_U")
            if s.logitcap:
                cap = self.F.constant(s.logitcap)
                y = [cap * self.tanh(z / cap, c) for z in y]
            out.append(self.share(y, c))
        for x in pooled:
            rest = [self.F.constant(0)] * (s.vocab - s.relation)
            out.append([*self.share(self.linear(x, HEAD, "W_rel"), 0), *rest])
        return out

    def transformed(self, x: Column, c: int) -> Column:
        if not self.s.transform:
            return x
        y = [self.act(z, c) for z in self.linear(x, HEAD, "W_T")]
        return self.norm(y, HEAD, "normT", self.s.norm) if self.s.headnorm else y

    def share(self, y: Column, c: int) -> Column:
        if self.s.output != "softmax":
            return y
        E = [self.F.exp(z, self.stage, c) for z in y]
        return [e / sum(E[1:], E[0]) for e in E]


def dot(x: Column, y: Column) -> Any:
    terms = [a * b for a, b in zip(x, y, strict=True)]
    return sum(terms[1:], terms[0])


def add(x: Column, y: Column) -> Column:
    return [a + b for a, b in zip(x, y, strict=True)]
