"""Trials with one thing broken on purpose: `mutants.py NAME EVENTS_FD CONTROL_FD`. The harness must catch each."""

from __future__ import annotations

import sys
from typing import Any

from runners import protocol
from runners.__main__ import main
from runners.frameworks import jax_runner
from runners.workloads import mlp


def without_synchronisation() -> None:
    """`synchronise` returns at once."""
    jax_runner.Runner.synchronise = _nothing  # type: ignore[method-assign]


def retrace_while_measuring() -> None:
    """The compiled step is forgotten before the second window."""
    begin = protocol._begin_window

    def begin_and_forget(index: int, *arguments: Any) -> None:
        begin(index, *arguments)
        if index == 1:
            jax_runner.jax.clear_caches()

    protocol._begin_window = begin_and_forget


def retrace_while_warming() -> None:
    """The compiled step is forgotten as the warm-up begins."""
    warm_up = protocol.warm_up

    def forget_and_warm_up(*arguments: Any) -> None:
        jax_runner.jax.clear_caches()
        warm_up(*arguments)

    protocol.warm_up = forget_and_warm_up


def retrace_while_calibrating() -> None:
    """The compiled step is forgotten as the calibration begins."""
    calibrate = protocol.calibrate

    def forget_and_calibrate(*arguments: Any) -> int:
        jax_runner.jax.clear_caches()
        return calibrate(*arguments)

    protocol.calibrate = forget_and_calibrate


def workload_exits() -> None:
    """A workload that calls sys.exit while it makes its inputs."""

    def inputs(*_: Any) -> None:
        sys.exit(3)

    mlp.inputs = inputs  # type: ignore[assignment]


def workload_raises() -> None:
    """A workload whose step raises while it is traced."""

    def step(state: Any, batch: Any) -> Any:
        raise FloatingPointError(f"no such step: {sorted(state)} {sorted(batch)}")

    mlp.jax_step = lambda workload: step  # noqa: ARG005


def _nothing(*_: Any) -> None:
    pass


if __name__ == "__main__":
    globals()[sys.argv[1]]()
    sys.exit(main(sys.argv[2:]))
