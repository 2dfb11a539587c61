"""The forward map of mixed stacks: against plain loops, and against ordinary stacks."""

import numpy as np
import pytest
from tests.support.mixed_stacks import random_mixed_stack

from segre.fields.prime import Prime
from segre.fields.real import Real
from segre.models import architecture
from segre.network import forward
from segre.spec import Network


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


FEATURES = {
    "none": lambda z: z,
    "square": lambda z: z**2,
    "exp": np.exp,
    "relu": lambda z: np.maximum(z, 0),
    "elu1": lambda z: np.where(z > 0, z + 1, np.exp(np.minimum(z, 0))),
    "silu": lambda z: z * sigmoid(z),
}


def taylor(order: int, z: float) -> float:
    return sum(z**i / np.prod(np.arange(1, i + 1)) for i in range(order + 1))


def by_loops(spec: Network, vector, X):
    """The definition of docs/mechanisms.md, head by head, key by key."""
    t, at = spec.t, 0

    def take(*shape):
        nonlocal at
        size = int(np.prod(shape))
        at += size
        return vector[at - size : at].reshape(shape)

    for layer in spec.layers:
        total = np.zeros((layer.width_out, t))
        d, a, inner = layer.width_in, layer.a, layer.dv or layer.width_out
        for group in layer.groups:
            one, h = group.mechanism, group.heads
            taps = one.kernel if one.conv == "full" else 1
            W_K = [take(h, a, d) for _ in range(taps)]
            W_Q = take(h, a, d)
            W_V = [take(h, inner, d) for _ in range(taps)]
            b_K = take(h, a) if one.bias in ("key", "both") else np.zeros((h, a))
            b_Q = take(h, a) if one.bias in ("query", "both") else np.zeros((h, a))
            rows = (a, inner) if one.conv == "depthwise" else (1, 1)
            filtered = one.conv in ("depthwise", "shared")
            c_K = [take(h, rows[0]) for _ in range(one.kernel)] if filtered else None
            c_V = [take(h, rows[1]) for _ in range(one.kernel)] if filtered else None
            rate = take(h) if one.decay == "learned" else None
            W_G = None
            if one.gate != "none":
                W_G = take(h, inner if one.gate == "element" else 1, d)
            W_O = take(h, layer.width_out, inner) if layer.dv is not None else None
            for n in range(h):
                count = (t - one.kernel) // one.stride + 1
                keys, values = [], []
                for j in range(count):
                    window = [X[:, one.stride * j + i] for i in range(one.kernel)]
                    if one.conv == "full":
                        k = sum(W[n] @ x for W, x in zip(W_K, window, strict=True))
                        v = sum(W[n] @ x for W, x in zip(W_V, window, strict=True))
                    elif filtered:
                        k = sum(c[n] * (W_K[0][n] @ x) for c, x in zip(c_K, window, strict=True))
                        v = sum(c[n] * (W_V[0][n] @ x) for c, x in zip(c_V, window, strict=True))
                    else:
                        k, v = W_K[0][n] @ window[0], W_V[0][n] @ window[0]
                    keys.append(k + b_K[n])
                    values.append(v)
                queries = [W_Q[n] @ X[:, q] + b_Q[n] for q in range(t)]
                for both in (keys, queries):
                    for j, x in enumerate(both):
                        if one.unit == "layer":
                            x = x - x.mean()
                            x = x / np.sqrt((x**2).mean())
                        if one.unit == "sphere":
                            x = x / np.sqrt((x**2).sum())
                        both[j] = FEATURES[one.feature](x)
                P = np.zeros((count, t))
                for j in range(count):
                    for q in range(t):
                        sees = not one.causal or j <= q
                        sees &= one.window is None or abs(q - j) <= one.window
                        sees &= one.local is None or q // one.local == j // one.local
                        if not sees:
                            continue
                        z = keys[j] @ queries[q]
                        weigh = {"identity": z, "exp": np.exp(z)}.get(one.weigh)
                        P[j, q] = taylor(one.order, z) if weigh is None else weigh
                        if rate is not None:
                            P[j, q] *= rate[n] ** (q - j)
                        elif one.decay != "none":
                            P[j, q] *= float(getattr(one.decay, "value", one.decay)) ** (q - j)
                if one.normalise == "both":
                    P = P / P.sum(axis=1, keepdims=True)
                if one.normalise != "none":
                    P = P / P.sum(axis=0, keepdims=True)
                if one.normalise == "centred":
                    P = P - 1 / count
                out = np.stack(values, axis=1) @ P
                if W_G is not None:
                    out = out * sigmoid(W_G[n] @ X)
                total += out if W_O is None else W_O[n] @ out
        X = total
    assert at == len(vector)
    return X


@pytest.mark.parametrize("seed", range(150))
def test_the_definition(seed: int) -> None:
    spec = random_mixed_stack(seed)
    rng = np.random.default_rng(seed)
    vector = rng.standard_normal(spec.parameters)
    X = rng.standard_normal((spec.width_in, spec.t))
    with np.errstate(all="ignore"):
        expected, found = by_loops(spec, vector, X), forward(Real(), spec, vector, X)
    scale = abs(expected).max()
    if np.isfinite(scale) and scale < 1e6:
        assert np.allclose(found, expected, rtol=1e-8, atol=1e-8 * (1 + scale))


@pytest.mark.parametrize("kind", ["softmax", "lightning"])
@pytest.mark.parametrize("dv", ["", "/dv=2"])
def test_plain_heads_are_those_of_ordinary_stacks(kind: str, dv: str) -> None:
    """The same numbers mod p, bit for bit."""
    F = Prime()
    net = architecture(f"{kind}/d=3,4,2/a=2/heads=2{dv}/t=3")
    same = Network.parse(f"{kind}/d=3,4,2/a=2/heads=2{dv}/t=3")
    assert isinstance(same, Network)
    rng = np.random.default_rng(0)
    w = F.constant(rng.integers(0, F.p, net.parameters))
    X = F.constant(rng.integers(0, F.p, (2, 3, 3)))
    assert np.array_equal(forward(F, net, w, X), forward(F, same, w, X))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("softmax:window=9", "softmax"),
        ("double:local=4", "double"),
        ("lightning:decay=1", "lightning:causal"),
        ("softmax:conv=full:kernel=1", "softmax"),
        ("softmax:local=1", "softmax:window=0"),
    ],
)
def test_restrictions_that_do_not_restrict(one: str, two: str) -> None:
    specs = [Network.parse(f"mix/d=3,2/a=2/heads={text}/t=4") for text in (one, two)]
    rng = np.random.default_rng(1)
    w, X = rng.standard_normal(specs[0].parameters), rng.standard_normal((5, 3, 4))
    outs = [forward(Real(), spec, w, X) for spec in specs]
    assert np.allclose(*outs, rtol=1e-13, atol=1e-13)


def test_an_element_gate_is_a_hierarchical_mixture_of_experts() -> None:
    """sum_j sigma(g_j . x) (sum_k P_k v_j . x_k) o_j: the identity that `explain` prints."""
    spec = Network.parse("mix/d=3,4/a=2/heads=softmax:gate=element/dv=2/t=5")
    rng = np.random.default_rng(4)
    w, X = rng.standard_normal(spec.parameters), rng.standard_normal((3, 5))
    K, Q, V, G = (w[start : start + 6].reshape(2, 3) for start in (0, 6, 12, 18))
    experts = w[24:].reshape(4, 2)
    P = np.exp((K @ X).T @ (Q @ X))
    P /= P.sum(axis=0)
    out = sum(np.outer(experts[:, j], sigmoid(G[j] @ X) * ((V[j] @ X) @ P)) for j in range(2))
    assert np.allclose(out, forward(Real(), spec, w, X))
