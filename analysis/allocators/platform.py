"""Exactly on demand: one call to the driver for every buffer, given back when the buffer is freed."""

from __future__ import annotations

from analysis.allocators.driver import Driver, round_up
from analysis.allocators.pool import Pool


class PlatformPool(Pool):
    """No pool at all: what is held of the driver is what is live, each buffer rounded up to the driver's granularity.

    A driver may pack small buffers into one of its pages, so that for many small ones this is an upper bound; give the
    driver a granularity of 256 bytes for the lower one.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._sizes: dict[int, int] = {}

    def allocate(self, size_bytes: int) -> int | None:
        """One call to the driver."""
        address = self.driver.reserve(size_bytes)
        if address is not None:
            self._sizes[address] = size_bytes
            self._count_allocation(size_bytes)
            self._count_growth(round_up(size_bytes, self.driver.granularity_bytes))
        return address

    def free(self, address: int) -> None:
        """One call to the driver."""
        size = self._sizes.pop(address)
        self.driver.release(address)
        self.live_bytes -= size
        self.pool_bytes -= round_up(size, self.driver.granularity_bytes)
