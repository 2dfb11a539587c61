"""Random architectures and weights through every exact command: no traceback, no broken promise.

What `dim` proves, `certify` certifies and `verify` accepts. Weights that are moved along a symmetry
are never a different function.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from bench.faults.tally import Tally
from bench.random_specs import random_stack, random_transformer, random_weights
from segre.certificate import certificate_of
from segre.errors import SegreError, UnluckyError
from segre.geometry.dimension import finding_of, prove
from segre.geometry.explain import explain
from segre.geometry.fiber import sample
from segre.geometry.normal_form import canonical
from segre.geometry.same import same_function
from segre.geometry.strata import classify
from segre.kernel import verify
from segre.spec import Network
from segre.transformer.spec import Transformer

_PARAMETERS = 120  # of transformers: so that thousands can be tried


class Tried:
    """What came out of many calls, by kind."""

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.wrong: list[str] = []

    def call(self, what: str, function: Callable[[], Any]) -> Any:
        """The result; None for a refusal in a line, or for what is counted as wrong."""
        try:
            return function()
        except UnluckyError:
            self.count["inconclusive, exit code 3"] += 1
        except SegreError:
            self.count["refused, exit code 2"] += 1
        except Exception as error:
            self.wrong.append(f"{what}: {type(error).__name__}: {error}")
        return None

    def promise(self, what: str, kept: bool) -> None:
        """Something that must be so."""
        if not kept:
            self.wrong.append(what)

    def tally(self, fault: str, tried: int) -> Tally:
        """The count of them."""
        said = [f"{count:,} {what}" for what, count in sorted(self.count.items())]
        return Tally(fault, tried, len(self.wrong), "; ".join([*said, *self.wrong[:3]]))


def prove_and_check(tried: Tried, spec: Network | Transformer, seed: int = 0) -> None:
    """Bounds, their certificate, and what the kernel says of it."""
    proof = tried.call(f"dim {spec}", lambda: prove(spec, seed))
    if proof is None:
        return
    found = finding_of(proof, seed)
    if found.status == "proved":
        tried.count["proved"] += 1
    else:
        tried.count["bounds that do not meet"] += 1
    document = tried.call(f"certify {spec}", lambda: certificate_of(proof))
    if document is None:
        tried.promise(f"dim proves {spec}, certify does not", found.status != "proved")
        return
    claim = document["claim"]
    # Random points may settle what the bounds of a proof leave open.
    certain = claim["status"] == "certain" and found.status != "proved"
    upper = found.lower if certain else found.upper
    same = (claim["lower"], claim["upper"]) == (found.lower, upper)
    tried.promise(f"dim and certify differ: {spec}", same)
    verdict = tried.call(f"verify {spec}", lambda: verify(document))
    tried.promise(f"not verified: {spec}", verdict is not None and verdict.valid)


def compare(tried: Tried, spec: Network, seed: int) -> None:
    """Weights of a stack, some of them special, moved, compared and classified."""
    kind, one = random_weights(spec, seed)
    _, two = random_weights(spec, seed + 1)
    what = f"{kind} weights of {spec}, seed {seed}"
    tried.call(f"same {what}", lambda: same_function(one, two))
    tried.call(f"normal form {what}", lambda: canonical(one).weights())
    moved = tried.call(f"move {what}", lambda: sample(one, seed))
    if moved is not None:
        verdict = tried.call(f"same, moved {what}", lambda: same_function(one, moved).verdict)
        tried.promise(f"moved, yet different: {what}", verdict != "different")
        tried.count[f"moved: {verdict}"] += 1
    first = one.layers[0]
    if spec.score == "lightning" and len(first.W_K) == 1 and first.W_O is None:
        A = first.W_K[0].T @ first.W_Q[0]
        tried.call(f"point {what}", lambda: classify(first.W_V[0], A, len(first.W_K[0])))


def tally(quick: bool) -> list[Tally]:
    """Try them."""
    stacks, pairs, transformers = (8, 50, 6) if quick else (400, 3000, 250)
    of_stacks, of_pairs, of_transformers = Tried(), Tried(), Tried()
    for seed in range(stacks):
        spec = random_stack(seed)
        prove_and_check(of_stacks, spec, seed)
        of_stacks.call(f"symmetries {spec}", partial(explain, spec))
    for seed in range(pairs):
        compare(of_pairs, random_stack(seed), seed)
    count = seed = 0
    while count < transformers:
        small = random_transformer(seed)
        seed += 1
        if small.parameters <= _PARAMETERS:
            prove_and_check(of_transformers, small, seed)
            count += 1
    return [
        of_stacks.tally("random stacks: dim, certify, verify, symmetries", stacks),
        of_pairs.tally("weights of random stacks: same, move, point", pairs),
        of_transformers.tally("random transformers: dim, certify, verify", transformers),
    ]
