"""A trace of requests through an allocator: what it took at most, where it failed, how the free memory was cut up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from analysis.allocators.pool import Pool


@dataclass(frozen=True, slots=True)
class Allocate:
    """A request for a buffer of `size_bytes` that is called `key` from then on. 0 bytes need no memory."""

    key: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Free:
    """The buffer `key` is given back."""

    key: int


Event = Allocate | Free


@dataclass(frozen=True)
class Replay:
    """What a trace comes to under one allocator.

    `peak_requested_bytes`: the highest sum of sizes asked for, the same for every allocator that serves them all.
    `peak_live_bytes`: the same as the allocator counts it. `peak_pool_bytes`: most of what it held of the driver.
    `peak_mapped_bytes`: most of what the driver had mapped for it. `fragmentation_ratio` is of the moment that
    `fragmentation_at` names: the refused request, or the last event (None: nothing was free, or not modelled).
    `refused_event` is the index of the event that failed, after which the trace ends (None: it fits).
    """

    peak_requested_bytes: int
    peak_live_bytes: int
    peak_pool_bytes: int
    peak_mapped_bytes: int
    growth_events: int
    allocations_count: int
    fragmentation_ratio: float | None
    fragmentation_at: str
    refused_event: int | None = None
    refused_bytes: int | None = None

    @property
    def fits(self) -> bool:
        """Whether every request was served."""
        return self.refused_event is None


def replay(trace: Iterable[Event], pool: Pool) -> Replay:
    """The events one after the other, until the first request that the pool refuses.

    Raises:
        ValueError: a buffer is freed that is not held, or allocated twice.
    """
    held: dict[int, tuple[int | None, int]] = {}
    requested = peak_requested = 0
    refused: tuple[int, int] | None = None
    for number, event in enumerate(trace):
        if isinstance(event, Free):
            requested -= _free(event, number, held, pool)
            continue
        if event.key in held:
            raise ValueError(f"event {number} allocates buffer {event.key}, which is held already: free it first.")
        address = pool.allocate(event.size_bytes) if event.size_bytes else None
        if address is None and event.size_bytes:
            refused = (number, event.size_bytes)
            break
        held[event.key] = (address, event.size_bytes)
        requested += event.size_bytes
        peak_requested = max(peak_requested, requested)
    return Replay(
        peak_requested_bytes=peak_requested,
        peak_live_bytes=pool.peak_live_bytes,
        peak_pool_bytes=pool.peak_pool_bytes,
        peak_mapped_bytes=pool.driver.peak_mapped_bytes,
        growth_events=pool.growth_events,
        allocations_count=pool.allocations_count,
        fragmentation_ratio=pool.fragmentation_ratio(),
        fragmentation_at="refused request" if refused else "last event",
        refused_event=refused[0] if refused else None,
        refused_bytes=refused[1] if refused else None,
    )


def _free(event: Free, number: int, held: dict[int, tuple[int | None, int]], pool: Pool) -> int:
    """Give the buffer back; its size."""
    if event.key not in held:
        raise ValueError(f"event {number} frees buffer {event.key}, which is not held: allocate it first.")
    address, size = held.pop(event.key)
    if address is not None:
        pool.free(address)
    return size
