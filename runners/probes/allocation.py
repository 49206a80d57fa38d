"""Which mechanism really serves the allocations: read back from the running process, never taken from the environment.

Two allocators stand one on the other and are judged apart: the framework's own for device arrays, and the C library's
malloc (or what is loaded in its place) below it. The rules below are pure functions of the readings.
"""

from __future__ import annotations

import re
from pathlib import Path

from runners.faults import TrialFault
from runners.frameworks.base import FrameworkRunner
from runners.probes.malloc import HostAllocator
from runners.records import AllocationResult, AllocationSpec, Scalar, TrialSpec

#: The closed list: mechanism → what it is.
MECHANISMS = {
    "posix_memalign": "each buffer straight from malloc's aligned call, given back when freed",
    "mkl_pool": "TensorFlow with oneDNN on the CPU: a growing pool for buffers of 256 KiB or more",
    "bfc": "best-fit with coalescing, growing on demand",
    "bfc_limit": "best-fit with coalescing, growing up to the limit asked for",
    "bfc_preallocated": "best-fit with coalescing over one region taken at the start (GPU)",
    "platform": "each buffer straight from the device driver, without statistics (GPU)",
    "cuda_async": "the CUDA driver's own stream-ordered pool (GPU)",
    "glibc_retain": "glibc's malloc, tuned so that freed memory stays mapped",
    "tcmalloc": "tcmalloc in place of glibc's malloc",
    "jemalloc": "jemalloc in place of glibc's malloc",
    "mimalloc": "mimalloc in place of glibc's malloc",
}
#: TensorFlow's own words when it builds the CPU's BFC allocator; needs TF_CPP_VMODULE=process_state=2 and
#: TF_CPP_MIN_LOG_LEVEL=0 in the environment.
LIMIT_LINE = re.compile(r"BFCAllocator with memory limit of (\d+) MB for ProcessState CPU allocator")


def probe(spec: TrialSpec, runner: FrameworkRunner, malloc: HostAllocator) -> AllocationResult:
    """The effective mechanism: the host allocator where it is not plain glibc, else the device allocator."""
    readings = runner.allocator_readings()
    if readings.get("statistics") == "counted" and spec.device.kind == "cpu":
        readings["logged_limit_mib"] = logged_limit_mib(Path("/proc/self/fd/2"))
    device = device_allocator(spec.device.kind, readings, spec.allocation)
    effective = device if malloc.name == "glibc" or spec.device.kind != "cpu" else malloc.name
    return AllocationResult(effective, device, malloc.name, {**malloc.readings, **readings})


def require_accepted(allocation: AllocationSpec, result: AllocationResult) -> None:
    """Raise `TrialFault` (invalid) where the mode is not satisfied with the mechanism that was found."""
    if allocation.accepts and result.effective not in allocation.accepts:
        raise TrialFault(
            "invalid",
            "allocation mode not effective",
            f"allocation={allocation.mode} asks for {' or '.join(allocation.accepts)}, but {result.effective} serves "
            f"the allocations (device allocator {result.device_allocator}, host allocator {result.host_allocator}; "
            f"readings {result.readings}).",
        )


def device_allocator(device_kind: str, readings: dict[str, Scalar], allocation: AllocationSpec) -> str | None:
    """The framework's allocator, from its own statistics; None where they do not tell it."""
    if device_kind == "cpu":
        return _cpu_allocator(readings, allocation.limit_bytes)
    return _gpu_allocator(readings)


def _cpu_allocator(readings: dict[str, Scalar], limit_bytes: int | None) -> str:
    """No statistics, or statistics that stay at zero under a held buffer: a pass-through to posix_memalign.

    BFC counts every buffer, rounded up to 256 bytes (1,000 → 1,024). The oneDNN pool counts 300,000 bytes (→ 300,032)
    but not 1,000, which it leaves to malloc.
    """
    if readings["statistics"] != "counted":
        return "posix_memalign"
    if not _integer(readings["small_raised_bytes"]):
        return "mkl_pool"
    limited = limit_bytes is not None and readings.get("logged_limit_mib") == limit_bytes // 2**20
    return "bfc_limit" if limited else "bfc"


def _gpu_allocator(readings: dict[str, Scalar]) -> str | None:
    """By the statistics: BFC tells its pool's size, the asynchronous pool does not, a pass-through has none."""
    if readings["statistics"] == "none":
        return "platform"
    if "bytes_limit" not in readings:
        return None
    if "pool_bytes" not in readings:
        return "cuda_async"
    return "bfc_preallocated" if readings["pool_bytes"] == readings["bytes_limit"] else "bfc"


def logged_limit_mib(log: Path) -> int | None:
    """The limit that TensorFlow logged for its CPU allocator, in MiB; None where stderr is no file or says nothing."""
    if not log.is_file():
        return None
    found = LIMIT_LINE.findall(log.read_text(errors="replace"))
    return int(found[-1]) if found else None


def _integer(value: Scalar) -> int:
    return int(value or 0)
