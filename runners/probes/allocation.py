"""The proof of the allocation mode: read back from the running process, never taken from its environment.

Two allocators stand one on the other and are judged apart: the framework's own for device arrays, and the C library's
malloc (or what is loaded in its place) below it. Here the machine is read; `mechanism` draws the conclusion.
"""

from __future__ import annotations

import numpy as np

from runners.faults import TrialFault
from runners.frameworks.base import FrameworkRunner
from runners.probes import nvml
from runners.probes.allocator_log import log_readings, own_log
from runners.probes.malloc import HostAllocator
from runners.probes.mechanism import close, device_allocator, limit_found
from runners.records import AllocationResult
from runners.specs import AllocationSpec, Scalar, TrialSpec

#: Far above the driver's granularity, and above what it keeps for small buffers.
BLOCK_BYTES = 256 * 2**20


def probe(spec: TrialSpec, runner: FrameworkRunner, malloc: HostAllocator) -> AllocationResult:
    """The effective mechanism: the host allocator where it is not plain glibc, else the device allocator."""
    kind = spec.device.kind
    readings = {**runner.allocator_readings(), **log_readings(own_log())}
    if kind == "gpu":
        readings.update(_driver_readings(runner, pass_through=readings["statistics"] == "none"))
    device = device_allocator(kind, readings, spec.allocation.limit_bytes)
    effective = device if malloc.name == "glibc" or kind != "cpu" else malloc.name
    return AllocationResult(effective, device, malloc.name, {**malloc.readings, **readings})


def require_accepted(allocation: AllocationSpec, result: AllocationResult) -> None:
    """Raise `TrialFault` (invalid) where the mode is not satisfied with the mechanism, or the limit, that was found."""
    if not allocation.accepts:
        return
    found = limit_found(result.readings)
    pooled = result.effective in ("bfc_preallocated", "bfc_unified", "cuda_async_reserved")
    if result.effective not in allocation.accepts:
        asked, served = (
            " or ".join(allocation.accepts),
            result.effective or "an allocator that the readings do not tell",
        )
    elif pooled and found and allocation.limit_bytes is not None and not close(found, allocation.limit_bytes):
        asked, served = (
            f"a limit of {allocation.limit_bytes} bytes",
            f"{result.effective} with a limit of {found} bytes",
        )
    else:
        return
    raise TrialFault(
        "invalid",
        "allocation mode not effective",
        f"allocation={allocation.mode} asks for {asked}, but {served} serves "
        f"the allocations (device allocator {result.device_allocator}, host allocator {result.host_allocator}; "
        f"readings {result.readings}).",
    )


def _driver_readings(runner: FrameworkRunner, *, pass_through: bool) -> dict[str, Scalar]:
    """The driver's count of this process, and around a block held and freed where nothing else tells the mechanism.

    A pool would keep that block for good and raise the process's figure, so only a pass-through is asked.
    """
    readings = nvml.readings()
    if not pass_through or "process_bytes" not in readings:
        return readings
    block = runner.place(np.zeros(BLOCK_BYTES, np.uint8), in_place=False)
    readings["process_held_bytes"] = nvml.readings().get("process_bytes")
    del block
    readings["process_freed_bytes"] = nvml.readings().get("process_bytes")
    return readings
