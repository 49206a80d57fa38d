"""A framework of NumPy that does as it is told: sleeps, stops, raises, dies or leaves processes behind, at any phase.

What it is told stands in `framework.compile` as PHASE:ACTION ("measure:SIGSEGV"), or, for the import of a fresh
interpreter, in the variable FAKE_FAULT. A trial finds this file on PYTHONPATH as the framework `fake`.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from runners.channel import Channel
from runners.frameworks.base import FrameworkRunner, PageStep, Program, Tree, counting
from runners.records import Phase, Quantity
from runners.specs import Scalar, TrialSpec
from runners.workloads import elementwise

LONG_SECONDS = 3600


def fake_step(workload: Any) -> Callable[..., Any]:  # noqa: ARG001
    """The elementwise step in NumPy."""

    def step(state: Tree, batch: Tree) -> tuple[Tree, Any]:
        x = elementwise.A * state["x"] + elementwise.B * batch["y"]
        return {"x": x}, np.float32(np.mean(x.astype(np.float32) ** 2))

    return step


elementwise.fake_step = fake_step  # type: ignore[attr-defined]


class Runner(FrameworkRunner):
    """One trial on NumPy."""

    name = "fake"
    distributions = ("numpy",)
    _opened = False

    def has_backend(self) -> bool:
        return Runner._opened or "FAKE_BACKEND" in os.environ

    def open_device(self, spec: TrialSpec) -> None:  # noqa: ARG002
        Runner._opened = True

    def knobs(self) -> dict[str, Scalar]:
        return {}

    def allocator_readings(self) -> dict[str, Scalar]:
        return {"statistics": "none"}

    def place(self, array: np.ndarray, *, in_place: bool) -> np.ndarray:  # noqa: ARG002
        return array.copy()

    def compile(self, step: PageStep, state: Tree, batch: Tree, *, donate: bool) -> Program:  # noqa: ARG002
        counted, traces = counting(step)
        counted(state, batch)
        return Program(step=lambda current: step(current, batch), traces=traces, trace_seconds=0.0, compile_seconds=0.0)

    def build_fence(self) -> Callable[[Tree, Any], float]:
        return lambda state, loss: float(state["x"][0, 0]) + float(loss)

    def synchronise(self, state: Tree, loss: Any) -> None:
        pass

    def device_memory(self) -> dict[str, Quantity]:
        return {"device_live_peak": Quantity(None, "NumPy counts nothing")}


def strike(action: str) -> None:
    """Do what was asked. Returns only where the trial is to go on."""
    if action.startswith("SIG"):
        os.kill(os.getpid(), getattr(signal, action))
        time.sleep(0.05)
    elif action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif action == "sleep":
        time.sleep(LONG_SECONDS)
    elif action == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(LONG_SECONDS)
    elif action == "raise":
        raise RuntimeError("planted failure")
    elif action == "memory":
        raise MemoryError("planted: cannot allocate 12345 bytes")
    elif action == "exit0":
        os._exit(0)
    elif action == "exit3":
        sys.exit(3)
    elif action == "grandchild":
        _leave_behind(session=False)
        time.sleep(LONG_SECONDS)
    elif action == "escapee":
        _leave_behind(session=True)
    elif action == "forks":
        for _ in range(20):
            _leave_behind(session=False)
        time.sleep(LONG_SECONDS)
    elif action == "garbage":
        os.write(3, b"this is no event\n")
    else:
        raise ValueError(f"the fake framework knows no action {action!r}")


def _leave_behind(session: bool) -> None:
    """A process that sleeps on: our child, or one that left our session and our family and holds none of our pipes."""
    if os.fork() == 0:
        if session:
            os.setsid()
            os.closerange(0, 64)
            if os.fork():
                os._exit(0)
        time.sleep(LONG_SECONDS)
        os._exit(0)


def _obey(told: str, phase: str) -> None:
    when, _, action = told.partition(":")
    if when == phase and action:
        strike(action)


def _wrap_channel() -> None:
    """Have every trial of this process tell us its spec and its phases."""
    told = {"now": ""}
    receive, announce = Channel.receive_spec, Channel.phase

    def receive_spec(self: Channel) -> TrialSpec:
        spec = receive(self)
        told["now"] = spec.framework.compile
        return spec

    def phase(self: Channel, entered: Phase) -> None:
        announce(self, entered)
        _obey(told["now"] or _spec_of_caller(), entered.value)

    Channel.receive_spec, Channel.phase = receive_spec, phase  # type: ignore[method-assign]


def _spec_of_caller() -> str:
    """In a fresh interpreter the spec was read before this module was imported; the trial object holds it."""
    frame = sys._getframe()
    while frame is not None:
        trial = frame.f_locals.get("trial")
        if trial is not None:
            return str(trial.spec.framework.compile)
        frame = frame.f_back  # type: ignore[assignment]
    return ""


_wrap_channel()
_obey(os.environ.get("FAKE_FAULT", ""), "import")
