"""The memory of one step alone: a second baseline once everything is compiled, and the peak of one more step.

A trial's own peak also holds what compiling left behind, which hides the compiler's plan. Here the state is freed, the
baseline taken and the high-water mark reset; then the state is placed again and stepped once. What the peak lies above
this baseline is state, results and temporaries of one step; the batch, which the program holds, is in the baseline.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

from runners.frameworks.base import FrameworkRunner, Program, Tree
from runners.probes import host, malloc
from runners.probes.malloc import HostAllocator
from runners.records import Quantity

#: The quantities, as a report names them.
STEADY = ("host_steady_baseline", "host_steady_peak")


def steady_memory(
    runner: FrameworkRunner, program: Program, place_state: Callable[[], Tree], host_malloc: HostAllocator
) -> dict[str, Quantity]:
    """The two quantities. Every earlier state of the program must have been dropped.

    `place_state` makes and places the first state once more; what making it leaves in malloc is handed back.
    """
    gc.collect()
    malloc.hand_back(host_malloc)
    baseline = host.baseline()
    state = place_state()
    # JAX lets go of a NumPy original at the next garbage collection only
    gc.collect()
    malloc.hand_back(host_malloc)
    problem = host.reset_peak()
    state, loss = program.step(state)
    runner.synchronise(state, loss)
    peak = Quantity(None, problem) if problem else host.peak()
    return dict(zip(STEADY, (baseline, peak), strict=True))
