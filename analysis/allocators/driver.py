"""The memory of a device as one process's allocator meets it: so many bytes are left, and calls are rounded up."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

MIB = 2**20
#: What one call to the CUDA driver is rounded up to: 2 MiB pages are usual; not verified on a device.
DRIVER_GRANULARITY_BYTES = 2 * MIB
#: Where the invented addresses begin, and how far apart regions lie: they never touch, whatever their size.
FIRST_ADDRESS, ADDRESS_STRIDE = 2**40, 2**44


def round_up(size_bytes: int, multiple: int) -> int:
    """The least multiple that is not smaller."""
    return -(-size_bytes // multiple) * multiple


def nine_tenths(size_bytes: int) -> int:
    """0.9 of a size as BFC computes it, in 32-bit floats, after the driver has refused that size."""
    return int(np.float32(size_bytes) * np.float32(0.9))


class Driver:
    """Gives blocks of memory and takes them back, while the sum stays within `capacity_bytes`.

    `bases` are the addresses to give out, in order, where the real ones are known (from a log); otherwise addresses
    ascend. Addresses matter to an allocator only in breaking ties between free chunks of one size.
    """

    def __init__(
        self,
        capacity_bytes: int,
        granularity_bytes: int = DRIVER_GRANULARITY_BYTES,
        bases: Iterable[int] = (),
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.granularity_bytes = granularity_bytes
        self.mapped_bytes = 0
        self.peak_mapped_bytes = 0
        self._bases = iter(bases)
        self._invented = 0
        self._sizes: dict[int, int] = {}

    def reserve(self, size_bytes: int) -> int | None:
        """The address of a new block; None where the device has too little left."""
        if not self.take(size_bytes):
            return None
        address = next(self._bases, None)
        if address is None:
            address = FIRST_ADDRESS + self._invented * ADDRESS_STRIDE
            self._invented += 1
        self._sizes[address] = size_bytes
        return address

    def release(self, address: int) -> None:
        """Give a block back."""
        self.give(self._sizes.pop(address))

    def take(self, size_bytes: int) -> bool:
        """Map so many bytes, rounded up to the granularity, without an address; False where they are not left."""
        rounded = round_up(size_bytes, self.granularity_bytes)
        if self.mapped_bytes + rounded > self.capacity_bytes:
            return False
        self.mapped_bytes += rounded
        self.peak_mapped_bytes = max(self.peak_mapped_bytes, self.mapped_bytes)
        return True

    def give(self, size_bytes: int) -> None:
        """Unmap what `take` mapped for as many bytes."""
        self.mapped_bytes -= round_up(size_bytes, self.granularity_bytes)
