"""The memory of one step alone: a second baseline once everything is compiled, and the peak of one more step.

A trial's own peak also holds what compiling left behind, which hides the compiler's plan. Here the state is freed, the
baseline taken, the state placed again and stepped twice, and the high-water mark reset before one more step. What the
peak lies above this baseline is state, results and temporaries of one step; the batch, which the program holds, is in
the baseline.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from runners.frameworks.base import FrameworkRunner, Program, Tree
from runners.probes import host, malloc
from runners.probes.malloc import HostAllocator
from runners.records import Quantity

#: The quantities, as a report names them.
STEADY = ("host_steady_baseline", "host_steady_peak")


#: The runtime's threads may hold what was dropped for some milliseconds more: the lowest of these readings counts.
READINGS, PAUSE_SECONDS = 3, 0.01


def steady_memory(
    runner: FrameworkRunner, program: Program, place_state: Callable[[], Tree], host_malloc: HostAllocator
) -> dict[str, Quantity]:
    """The two quantities. Every state but the one that the program is bound to must have been dropped.

    `place_state` makes and places the first state once more; what making it leaves in malloc is handed back.
    """
    assert program.renew is not None, "only a program that lets go of its state has a second baseline"
    program.renew({})
    baseline = _settled_baseline(host_malloc)
    state = program.renew(place_state())
    # TensorFlow may place a view of the NumPy original, which no step can overwrite: the first step's result replaces
    # it, and the next call into TensorFlow lets the original go
    for _ in range(2):
        state, loss = program.step(state)
        runner.synchronise(state, loss)
    # JAX lets go of a NumPy original at the next garbage collection only
    gc.collect()
    malloc.hand_back(host_malloc)
    problem = host.reset_peak()
    state, loss = program.step(state)
    runner.synchronise(state, loss)
    peak = Quantity(None, problem) if problem else host.peak()
    return dict(zip(STEADY, (baseline, peak), strict=True))


def _settled_baseline(host_malloc: HostAllocator) -> Quantity:
    found = []
    for reading in range(READINGS):
        if reading:
            time.sleep(PAUSE_SECONDS)
        gc.collect()
        malloc.hand_back(host_malloc)
        found.append(host.baseline())
    return min(found, key=lambda one: one.value or 0)
