"""One process after another on one device, all alike: what the first takes, and how many there is room for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.allocators.driver import DRIVER_GRANULARITY_BYTES
from analysis.allocators.modes import DEFAULT_FRACTION, Device, Mode
from analysis.allocators.replay import Event, Replay, replay

#: What a process holds of a GPU before its first buffer: the driver's context and the libraries' kernels. Assumed; a
#: real one depends on driver, GPU and libraries, and NVML's bytes of an idle process tell it.
CONTEXT_BYTES = 512 * 2**20
#: Counting stops here.
MOST_TENANTS = 16


@dataclass(frozen=True)
class Chip:
    """A GPU's total memory in bytes and its compute capability (9.0 for an H100)."""

    memory_bytes: int
    compute_capability: float


@dataclass(frozen=True)
class Tenancy:
    """`process_bytes`: context, code and what the driver mapped at most for the first process, alone on the device.

    `tenants_count`: how many such processes run side by side, each holding its peak (at most `MOST_TENANTS`).
    """

    first: Replay
    process_bytes: int
    tenants_count: int


def tenancy(
    trace: Sequence[Event],
    mode: Mode,
    chip: Chip,
    version: str,
    fraction: float = DEFAULT_FRACTION,
    context_bytes: int = CONTEXT_BYTES,
    code_bytes: int = 0,
    granularity_bytes: int = DRIVER_GRANULARITY_BYTES,
) -> Tenancy:
    """Start processes that each replay `trace`, in turn, until one does not fit into what the others leave.

    A process that fits may find its pool smaller than the first one's: limits follow the memory that is free where a
    framework computes them so, and a refused reservation is tried again with less. `code_bytes` lie outside the pool.
    """
    own = context_bytes + code_bytes
    free = chip.memory_bytes
    first: Replay | None = None
    count = 0
    while count < MOST_TENANTS:
        left = max(free - own, 0)
        device = Device(chip.memory_bytes, left, chip.compute_capability, granularity_bytes)
        found = replay(trace, mode.build(device, fraction, version))
        first = first or found
        if not found.fits or own > free:
            break
        count += 1
        free = left - found.peak_mapped_bytes
    assert first is not None
    return Tenancy(first, own + first.peak_mapped_bytes, count)
