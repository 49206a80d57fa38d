"""What the protocol asks of a framework. Arrays are opaque here: only a framework's own file touches them."""

from __future__ import annotations

import importlib.metadata
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from runners.faults import TrialFault
from runners.records import Quantity
from runners.specs import Scalar, TrialSpec
from runners.work import TracedWork

#: The arrays of one side of a step, by name: `np.ndarray`s on a page, the framework's own arrays once placed.
Tree = dict[str, Any]
#: A page's step: pure, (state, batch) → (new state, loss), the loss a float32 scalar.
PageStep = Callable[[Tree, Tree], tuple[Tree, Any]]


@dataclass(frozen=True)
class ArrayShape:
    """An array that need not exist: its shape, and its dtype as NumPy knows it."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


#: The shapes of one side of a step, by name.
Shapes = dict[str, ArrayShape]


@dataclass
class Lowering:
    """A step on its way to a compiler.

    `form` says what `module` is: `stablehlo` text, or a serialised `hlo` proto. `bridge` is what lowered it. Arguments
    and results are flat: the state's arrays by name, then the batch's; the new state's, then the loss.
    """

    module: bytes
    form: str
    bridge: str
    trace_seconds: float
    lower_seconds: float
    traces: int


@dataclass
class Program:
    """A compiled step, bound to its batch, or to the `cycle` batches that it takes in turn.

    `step(state)` gives (new state, loss) and may return before the work is done; the state given to it is consumed.
    `traces()` counts how often Python ran the page's step, which is once per trace. Seconds are None where the
    framework cannot tell a stage apart; `first_call_compiles` says that the first step holds compilation. `work` is
    what the trace holds of matrix products and convolutions (None: not looked at). `renew(state)` gives back the memory
    of a state that it is bound to, and the state to step next; with {} it holds none. None: it cannot be asked that.
    """

    step: Callable[[Tree], tuple[Tree, Any]]
    traces: Callable[[], int]
    trace_seconds: float
    lower_seconds: float | None = None
    compile_seconds: float | None = None
    first_call_compiles: bool = False
    cycle: int = 1
    work: TracedWork | None = None
    renew: Callable[[Tree], Tree] | None = None


class FrameworkRunner(ABC):
    """One framework in one process. The calls come in the order in which they stand here."""

    name: str
    distributions: tuple[str, ...]

    def versions(self) -> dict[str, str]:
        """Versions by distribution, read from the installation so that nothing more is imported."""
        installed = {
            distribution.metadata["Name"].lower().replace("_", "-"): distribution.version
            for distribution in importlib.metadata.distributions()
        }
        found = {name: installed[name] for name in self.distributions if name in installed}
        return {"framework": next(iter(found.values()), "unknown"), **found}

    @abstractmethod
    def has_backend(self) -> bool:
        """Whether this process holds a backend already: then it must not be forked any more."""

    @abstractmethod
    def open_device(self, spec: TrialSpec) -> None:
        """Apply precision and allocation calls, then create the backend. `TrialFault` where the device is absent."""

    @abstractmethod
    def knobs(self) -> dict[str, Scalar]:
        """The settings that change what is compared: precision, threads, library switches."""

    @abstractmethod
    def allocator_readings(self) -> dict[str, Scalar]:
        """What the device allocator tells of itself, for `probes.allocation` to judge. Leaves no mark on the peak."""

    @abstractmethod
    def place(self, array: np.ndarray, *, in_place: bool) -> Any:
        """A device copy of `array` that shares no memory with it; `in_place`: one that a step will overwrite.

        Raises `TrialFault` (unavailable) where the copy lives on another platform than the one asked for.
        """

    @abstractmethod
    def compile(
        self,
        step: PageStep,
        state: Tree,
        batch: Tree,
        *,
        donate: bool,
        more_batches: Sequence[Tree] = (),
        tracing: str | None = None,
    ) -> Program:
        """Compile the page's step. `donate`: the old state's memory becomes the new state's.

        `more_batches` follow the first in turn; `tracing` says how their changing shapes are met (see WorkloadSpec).
        Raises `TrialFault` (not_applicable) for a `tracing` that the framework does not have.
        """

    @abstractmethod
    def build_fence(self) -> Callable[[Tree, Any], float]:
        """A compiled function (state, loss) → a number that depends on every output, fetched to the host."""

    @abstractmethod
    def synchronise(self, state: Tree, loss: Any) -> None:
        """Return when every array of the step's output exists."""

    @abstractmethod
    def device_memory(self) -> dict[str, Quantity]:
        """device_live_peak, device_pool_peak, device_largest_free_block and device_fragmented_free (see TrialReport).

        A statistic that is not collected is None, never 0.
        """

    def lower(self, spec: TrialSpec, step: PageStep, state: Shapes, batch: Shapes) -> Lowering:
        """Lower the page's step for `spec.device.kind`, with no device opened: the only call of a compiled trial.

        Raises:
            TrialFault: not_applicable, where this framework cannot.
        """
        text = f"{self.name} offers no lowering to StableHLO: use evidence=measured ({spec.workload.name}, {step}, "
        raise TrialFault("not_applicable", "no lowering", f"{text}{len(state)} and {len(batch)} arrays)")


def counting(step: PageStep) -> tuple[PageStep, Callable[[], int]]:
    """`step`, and how often Python has run it: a compiled step's body runs only while it is traced."""
    runs = 0

    def counted(state: Tree, batch: Tree) -> tuple[Tree, Any]:
        nonlocal runs
        runs += 1
        return step(state, batch)

    return counted, lambda: runs


def uncompiled(step: PageStep, batch: Tree) -> Program:
    """A step that drives the framework from the host by itself: it is called as it stands, and never traced."""
    return Program(lambda state: step(state, batch), traces=lambda: 0, trace_seconds=0.0)


def shared_knobs() -> dict[str, Scalar]:
    """The settings of the process that reach every framework alike."""
    return {
        "cpu_count": len(os.sched_getaffinity(0)),
        "xla_flags": os.environ.get("XLA_FLAGS"),
        "ld_preload": os.environ.get("LD_PRELOAD"),
        "glibc_tunables": os.environ.get("GLIBC_TUNABLES"),
    }
