"""Composition by hand-built stacks: right for all functions, and what linear lookups lose."""

import numpy as np
import pytest

from segre.reproduce.composition import (
    Task,
    answers,
    composed,
    embedding,
    functions,
    sequence,
    starts,
    weights,
)


def said(task: Task, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    vector = weights(task, embedding(task, rng))
    f = functions(task, rng)
    return answers(task, vector, starts(task, sequence(task, f, rng))), composed(f)


@pytest.mark.parametrize(("steps", "symbols"), [(1, 2), (1, 9), (2, 8), (3, 5), (5, 3)])
@pytest.mark.parametrize("seed", [0, 1])
def test_full_attention_composes_random_functions(steps: int, symbols: int, seed: int) -> None:
    task = Task(steps, symbols)
    found, right = said(task, seed)
    assert np.allclose(found, np.eye(symbols)[right], atol=1e-12)
    assert task.spec().depth == steps + 1


def test_one_layer_less_does_not_do_it() -> None:
    """Without its last lookup the same stack holds what the step before gave."""
    rng = np.random.default_rng(3)
    task = Task(2, 6)
    vector, f = weights(task, embedding(task, rng)), functions(task, rng)
    X = starts(task, sequence(task, f, rng))
    last = task.spec().layers[-1].parameters
    silent = np.concatenate([vector[:-last], np.zeros(last)])
    assert (answers(task, vector, X).argmax(axis=1) == composed(f)).all()
    assert not answers(task, silent, X).any()


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_the_pairs_does_not_matter(seed: int) -> None:
    task = Task(2, 4)
    vector = weights(task, np.eye(4))
    f = functions(task, np.random.default_rng(seed))
    one, two = (
        answers(task, vector, starts(task, sequence(task, f, np.random.default_rng(n))))
        for n in (10, 11)
    )
    assert np.allclose(one, two, atol=1e-12)


def test_linear_lookups_need_a_coordinate_for_each_symbol() -> None:
    wide = Task(2, 6, (True, True))
    found, right = said(wide, 0)
    assert np.allclose(found, np.eye(6)[right], atol=1e-12)
    shares = []
    for seed in range(6):
        for linear in (True, False):
            found, right = said(Task(1, 12, (linear,), 3), seed)
            share = (found.argmax(axis=1) == right).mean()
            if linear:
                shares.append(share)
            else:
                assert share == 1
    assert np.mean(shares) < 0.9
