"""What every allocator offers a replay, and the statistics that all of them keep."""

from __future__ import annotations

from abc import ABC, abstractmethod

from analysis.allocators.driver import Driver


class Pool(ABC):
    """One process's allocator over one `Driver`.

    `live_bytes` is what the allocator counts as in use (BFC: whole chunks; the others: bytes asked for), `pool_bytes`
    what it holds of the driver. `growth_events` counts its calls for more of the driver's memory.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.live_bytes = 0
        self.peak_live_bytes = 0
        self.pool_bytes = 0
        self.peak_pool_bytes = 0
        self.allocations_count = 0
        self.growth_events = 0

    @abstractmethod
    def allocate(self, size_bytes: int) -> int | None:
        """The address of a buffer of `size_bytes` > 0; None where memory does not suffice."""

    @abstractmethod
    def free(self, address: int) -> None:
        """Give a buffer back."""

    def largest_free_bytes(self) -> int | None:
        """The largest request that the pool can serve as it is; None where the model does not know."""
        return None

    def fragmentation_ratio(self) -> float | None:
        """(free − largest free chunk) ÷ free, over the pool; None where nothing is free, or the model does not know."""
        free, largest = self.pool_bytes - self.live_bytes, self.largest_free_bytes()
        return None if not free or largest is None else (free - largest) / free

    def _count_allocation(self, size_bytes: int) -> None:
        self.allocations_count += 1
        self.live_bytes += size_bytes
        self.peak_live_bytes = max(self.peak_live_bytes, self.live_bytes)

    def _count_growth(self, size_bytes: int) -> None:
        self.growth_events += 1
        self.pool_bytes += size_bytes
        self.peak_pool_bytes = max(self.peak_pool_bytes, self.pool_bytes)
