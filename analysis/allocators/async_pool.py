"""CUDA's stream-ordered pool (cuda_async, cuda_malloc_async) as far as it is documented.

Where the driver puts a buffer inside its pool is not documented: it maps pages together as it needs them, so that no
fragmentation is modelled, and none is reported. CUDA Programming Guide, "Stream Ordered Memory Allocator": above the
release threshold the pool gives memory back at the next synchronisation; here at every free, so that `growth_events`
is an upper bound, and peaks are what they are. Statistics are unrounded, as the frameworks' own are for this allocator.
"""

from __future__ import annotations

from itertools import count

from analysis.allocators.driver import Driver, round_up
from analysis.allocators.pool import Pool


class AsyncPool(Pool):
    """Grows with what is live and keeps at most `keep_bytes` of what is not.

    `reserved_bytes` are taken at the start, before any request (JAX with preallocation). The pool has no cap but the
    device's memory.
    """

    def __init__(self, driver: Driver, keep_bytes: int, reserved_bytes: int = 0) -> None:
        super().__init__(driver)
        self.keep_bytes = keep_bytes
        self._sizes: dict[int, int] = {}
        self._handles = count()
        self.ready = not reserved_bytes or self._grow_to(reserved_bytes)

    def allocate(self, size_bytes: int) -> int | None:
        """A handle in place of an address; None where the device is full, or the reservation had failed."""
        if not self.ready or not self._grow_to(self.live_bytes + size_bytes):
            return None
        handle = next(self._handles)
        self._sizes[handle] = size_bytes
        self._count_allocation(size_bytes)
        return handle

    def free(self, address: int) -> None:
        """What lies above the threshold and holds nothing goes back to the driver."""
        self.live_bytes -= self._sizes.pop(address)
        granularity = self.driver.granularity_bytes
        needed = max(round_up(self.live_bytes, granularity), round_up(self.keep_bytes, granularity))
        if needed < self.pool_bytes:
            self.driver.give(self.pool_bytes - needed)
            self.pool_bytes = needed

    def _grow_to(self, size_bytes: int) -> bool:
        more = round_up(size_bytes, self.driver.granularity_bytes) - self.pool_bytes
        if more <= 0:
            return True
        if not self.driver.take(more):
            return False
        self._count_growth(more)
        return True
