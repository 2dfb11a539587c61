"""What a check costs is known beforehand, charged as it is done, and stopped at its deadline."""

import itertools
import json
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from bench.kernel import Watch, certificates, healed, hostile
from bench.random_specs import random_transformer

from segre.certificate import certify
from segre.errors import TooLargeError
from segre.kernel.document import RejectionError, examine
from segre.kernel.lower import check
from segre.kernel.meter import Meter, OutOfTimeError, metered
from segre.kernel.network import graph_of
from segre.kernel.verify import verify
from support.architectures import random_stacks
from support.terminal import run

SMALL = "softmax/d=3,3,3/a=2/t=2"
REAL = "transformer/d=2/mlp=relu/ff=2/t=2"


def holds(document: dict[str, Any]) -> None:
    """The estimate of a lower bound is never below its charge, the same on every machine."""
    certificate, watch = examine(document), Watch()
    with metered(watch), suppress(RejectionError):
        check(certificate, graph_of(certificate.spec), [], lambda *_: None)
        assert 0 < watch.spent <= watch.estimated * (1 + 1e-12)  # the same sum in another order


def test_of_all_kinds() -> None:
    for _, _, document in certificates(quick=True):
        holds(document)


@pytest.mark.parametrize("seed", range(4))
def test_of_random_stacks(seed: int) -> None:
    for net in random_stacks(seed, 4):
        holds(certify(str(net), seed=seed))


@pytest.mark.parametrize("t", [20, 90, 200])
def test_of_long_inputs_and_thin_matrices(t: int) -> None:
    holds(hostile(f"transformer/d=1/head=1/attn=lightning/t={t}"))


@pytest.mark.parametrize("seed", range(25))
def test_of_random_transformers(seed: int) -> None:
    """A single row is claimed, so that nothing has to be proved first."""
    holds(hostile(str(random_transformer(seed))))


@pytest.mark.parametrize(
    "spec",
    [
        "transformer/d=1/head=1/t=30",
        "transformer/d=2/heads=2/head=1/t=20",
        "lightning/d=1,1/a=1/t=99",
    ],
)
def test_long_inputs_are_charged_for(spec: str) -> None:
    """What is t x t costs at least the square of what t does."""
    longer = spec.replace("/t=", "/t=2")  # 30 becomes 230
    costs = []
    for name in (spec, longer):
        watch = Watch(seconds=0)
        with pytest.raises(OutOfTimeError):
            verify(hostile(name), meter=watch)
        costs.append(watch.estimated)
    assert costs[1] > (230 / 99 if "99" in spec else 7) ** 2 * costs[0] / 4


def ticking(step: float) -> Callable[[], float]:
    """A clock that is read, and goes on by a step."""
    times = itertools.count()
    return lambda: next(times) * step


@pytest.mark.parametrize("spec", [SMALL, REAL])
def test_a_deadline_may_come_at_any_moment(spec: str) -> None:
    """Wherever the clock stops it, nothing is said about the certificate."""
    document = certify(spec)
    reads = itertools.count()
    assert verify(document, meter=Meter(clock=lambda: float(next(reads)) * 0)).valid
    total = next(reads)
    assert total > 8, "the clock is read inside of loops"
    for last in sorted({1, 2, 3, total // 3, total // 2, total - 5}):
        with pytest.raises(OutOfTimeError) as error:
            verify(document, meter=Meter(seconds=last * 1e6, clock=ticking(1e6)))
        assert "may be valid or not" in str(error.value)
        assert error.value.exit_code == 3


def test_what_would_end_too_late_is_not_begun() -> None:
    document = hostile("transformer/d=1/head=1/t=2000")
    meter = Meter(seconds=3)
    with pytest.raises(OutOfTimeError, match="would take about"):
        verify(document, meter=meter)
    assert meter.spent == 0


def test_work_is_charged_before_it_is_done() -> None:
    meter = Meter(seconds=10, clock=lambda: 0.0)
    meter.charge(9)
    with pytest.raises(OutOfTimeError):
        meter.charge(11)
    meter.require(10)
    with pytest.raises(TooLargeError):
        meter.require(11)


def test_healed_certificates_are_checked_to_the_end() -> None:
    assert verify(healed(hostile("transformer/d=1/head=1/t=5"))).valid


def test_the_command_gives_up(tmp_path: Path) -> None:
    file = tmp_path / "long.json"
    file.write_text(json.dumps(hostile("transformer/d=1/head=1/t=2000")))
    for more in ([], ["--json"]):
        done = run("verify", file, "--seconds", "1", *more)
        assert (done.returncode, done.stdout) == (3, "")
        assert done.stderr.startswith("segre: checking the certificate would take about")
        assert done.stderr.count("\n") == 1
    assert run("verify", file, "--seconds", "-1").returncode == 2


def test_pipes_do_not_hang_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.json"
    os.mkfifo(pipe)
    for command in (("verify",), ("dim",), ("variety", "point")):
        done = run(*command, pipe)
        assert done.returncode == 2
        assert (
            "not a regular file; to read from a pipe, give - and use standard input"
        ) in done.stderr
        assert done.stderr.count("\n") == 1
