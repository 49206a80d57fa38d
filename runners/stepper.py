"""One clock and one loop for every framework: single synchronised steps, and windows of steps timed together.

All times are CLOCK_MONOTONIC. A synchronised step ends when its whole output exists. A window is K steps in a row, then
one wait for the whole output, then the fetch of a number that depends on all of it; the fetch belongs to the window, so
work that a framework had merely queued would still be paid for inside it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from runners.frameworks.base import FrameworkRunner, Program, Tree


@dataclass
class Window:
    """K steps timed together."""

    start_seconds: float
    seconds: float


class Stepper:
    """A compiled step and the state it has reached."""

    def __init__(self, runner: FrameworkRunner, program: Program, state: Tree) -> None:
        self.program = program
        self._runner = runner
        self._state = state
        self._loss: Any = None

    def step(self) -> float:
        """One synchronised step; its seconds."""
        began = time.monotonic_ns()
        self._state, self._loss = self.program.step(self._state)
        self._runner.synchronise(self._state, self._loss)
        return (time.monotonic_ns() - began) / 1e9

    def loss(self) -> float:
        """The last step's loss, fetched."""
        return float(self._loss)

    def build_fence(self) -> None:
        """Compile the fence and use it twice, so that it costs a window only its fetch."""
        self._fence = self._runner.build_fence()
        for _ in range(2):
            self._fence(self._state, self._loss)

    def window(self, steps: int) -> Window:
        """`steps` steps without waiting in between, then the whole output and one number of it."""
        step, state, loss = self.program.step, self._state, self._loss
        began = time.monotonic_ns()
        for _ in range(steps):
            state, loss = step(state)
        self._runner.synchronise(state, loss)
        self._fence(state, loss)
        ended = time.monotonic_ns()
        self._state, self._loss = state, loss
        return Window(began / 1e9, (ended - began) / 1e9)

    def fetch_after_synchronise(self, steps: int) -> tuple[float, float]:
        """Seconds of `steps` queued steps with their wait, and of the fetch after it."""
        began = time.monotonic()
        for _ in range(steps):
            self._state, self._loss = self.program.step(self._state)
        self._runner.synchronise(self._state, self._loss)
        return time.monotonic() - began, self.fetch()

    def fetch(self) -> float:
        """Seconds of one fetch of the fence."""
        began = time.monotonic()
        self._fence(self._state, self._loss)
        return time.monotonic() - began
