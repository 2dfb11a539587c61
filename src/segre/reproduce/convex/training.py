"""What does training with few heads reach? Linear attention with weight decay, by L-BFGS."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize

from segre.fields.interface import Array
from segre.optimum.problem import Problem

STEPS = 4000


def teacher(
    seed: int, *, sequences: int = 12, tokens: int = 4, d: int = 3, c: int = 2, heads: int = 4
) -> tuple[Array, Array]:
    """Random inputs, and what a random layer with a few heads makes of them."""
    rng = np.random.default_rng([seed, 8078])
    X = rng.standard_normal((sequences, tokens, d))
    W_QK, W_OV = rng.standard_normal((heads, d, d)), rng.standard_normal((heads, d, c))
    square = X.swapaxes(-1, -2) @ X
    return X, sum(X @ A @ square @ B for A, B in zip(W_QK, W_OV, strict=True))


def trained(
    problem: Problem, heads: int, rng: np.random.Generator, scale: float = 0.5
) -> tuple[Array, Array]:
    """W_QK and W_OV after training from random weights."""
    d, c = problem.d, problem.c
    M, Y = problem.map, problem.targets
    count = heads * d * d

    def objective(vector: Array) -> tuple[float, Array]:
        A, B = vector[:count].reshape(heads, -1), vector[count:].reshape(heads, -1)
        rest = M @ problem.columns(A.T @ B) - Y
        slope = (M.T @ rest).reshape(d * d, d * c)
        value = ((rest**2).sum() + problem.beta * (vector**2).sum()) / 2
        by_A, by_B = B @ slope.T, A @ slope
        return float(value), np.concatenate([by_A.ravel(), by_B.ravel()]) + problem.beta * vector

    start = scale * rng.standard_normal(heads * d * (d + c))
    options = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 30}
    vector = minimize(objective, start, jac=True, method="L-BFGS-B", options=options).x
    return vector[:count].reshape(heads, d, d), vector[count:].reshape(heads, d, c)


def float_objective(problem: Problem, W_QK: Array, W_OV: Array) -> float:
    """The training objective, in floats."""
    Z = W_QK.reshape(len(W_QK), -1).T @ W_OV.reshape(len(W_OV), -1)
    rest = problem.map @ problem.columns(Z) - problem.targets
    decay = (W_QK**2).sum() + (W_OV**2).sum()
    return float(((rest**2).sum() + problem.beta * decay) / 2)


def best_of(
    problem: Problem, heads: int, restarts: int, rng: np.random.Generator
) -> tuple[Array, Array]:
    """The best of several trainings."""
    every = [trained(problem, heads, rng) for _ in range(restarts)]
    return min(every, key=lambda pair: float_objective(problem, *pair))
