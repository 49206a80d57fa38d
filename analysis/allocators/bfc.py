"""Best-fit with coalescing (BFC), replayed: TensorFlow's device pool, and JAX's where it does not preallocate.

Source: OpenXLA, xla/tsl/framework/bfc_allocator.cc, as in TensorFlow 2.21 and jaxlib 0.10.2. Replayed against
TensorFlow's own BFC on the CPU by tests/benchmarks/allocator_against_tf.py. Two things are left out: the order in which
streams finish (JAX and TensorFlow give memory back to the pool at once), and the wait of up to 10 s for other threads.
"""

from __future__ import annotations

from analysis.allocators.chunks import MOST_WASTE_BYTES, UNIT_BYTES, Chunk, FreeChunks, should_split
from analysis.allocators.driver import Driver, nine_tenths, round_up
from analysis.allocators.pool import Pool

#: The first region of a pool that grows.
FIRST_REGION_BYTES = 2 * 2**20


class BfcPool(Pool):
    """Regions of memory, each one call to the driver; inside them chunks.

    `growth`: regions of 2 MiB, doubling; otherwise one region of the limit, at the first request. `garbage_collection`
    gives wholly idle regions back before a request fails. `fragmentation_fraction` of the limit is the remainder that
    may be handed out with a chunk (0: 128 MiB).
    """

    def __init__(
        self,
        driver: Driver,
        limit_bytes: int,
        growth: bool,
        garbage_collection: bool = False,
        fragmentation_fraction: float = 0.0,
    ) -> None:
        super().__init__(driver)
        self.limit_bytes = limit_bytes
        self.garbage_collection = garbage_collection
        self.next_region_bytes = round_up(min(limit_bytes, FIRST_REGION_BYTES) if growth else limit_bytes, UNIT_BYTES)
        fraction = fragmentation_fraction
        self.most_waste_bytes = int(fraction * limit_bytes) if fraction > 0 else MOST_WASTE_BYTES
        self.regions: dict[int, int] = {}
        self._first: dict[int, Chunk] = {}
        self._in_use: dict[int, Chunk] = {}
        self._free = FreeChunks()

    def allocate(self, size_bytes: int) -> int | None:
        """From the best free chunk; from a new region where there is none; after a collection where that fails."""
        rounded = round_up(size_bytes, UNIT_BYTES)
        chunk = self._free.best(rounded)
        if chunk is None and (self._extend(rounded) or (self._release_idle(rounded) and self._extend(rounded))):
            chunk = self._free.best(rounded)
        return None if chunk is None else self._hand_out(chunk, size_bytes, rounded)

    def free(self, address: int) -> None:
        """Free the chunk and merge it with its free neighbours, the next one and then the previous."""
        chunk = self._in_use.pop(address)
        self.live_bytes -= chunk.size_bytes
        chunk.requested_bytes = None
        if chunk.next is not None and chunk.next.free:
            self._free.remove(chunk.next)
            chunk.absorb_next()
        if chunk.previous is not None and chunk.previous.free:
            chunk = chunk.previous
            self._free.remove(chunk)
            chunk.absorb_next()
        self._free.add(chunk)

    def largest_free_bytes(self) -> int:
        """Size of the largest free chunk."""
        return self._free.largest_bytes()

    def chunks(self) -> dict[int, list[Chunk]]:
        """The chunks of every region in order, by the region's base address, ascending."""
        return {base: list(self._first[base].onwards()) for base in sorted(self.regions)}

    def _hand_out(self, chunk: Chunk, size_bytes: int, rounded: int) -> int:
        self._free.remove(chunk)
        if should_split(chunk.size_bytes, rounded, self.most_waste_bytes):
            self._free.add(chunk.split(rounded))
        chunk.requested_bytes = size_bytes
        self._in_use[chunk.address] = chunk
        self._count_allocation(chunk.size_bytes)
        return chunk.address

    def _extend(self, rounded: int) -> bool:
        """One more region, as one free chunk; False where limit or driver has too little left."""
        available = (self.limit_bytes - self.pool_bytes) // UNIT_BYTES * UNIT_BYTES
        if rounded > available:
            return False
        doubled = False
        while rounded > self.next_region_bytes:
            self.next_region_bytes *= 2
            doubled = True
        size = min(self.next_region_bytes, available)
        while (base := self.driver.reserve(size)) is None:
            size = _smaller(size)
            if size < rounded:
                return False
        if not doubled:
            self.next_region_bytes *= 2
        self._count_growth(size)
        self.regions[base] = size
        self._first[base] = Chunk(base, size)
        self._free.add(self._first[base])
        return True

    def _release_idle(self, rounded: int) -> bool:
        """Give the regions back that hold no buffer, where that can make room; whether any was."""
        if not self.garbage_collection:
            return False
        idle = [base for base, size in self.regions.items() if self._first[base].free_and_alone(size)]
        total = sum(self.regions[base] for base in idle)
        if not total or rounded > self.limit_bytes - self.pool_bytes + total:
            return False
        for base in idle:
            self._free.remove(self._first.pop(base))
            self.pool_bytes -= self.regions.pop(base)
            self.driver.release(base)
        return True


def _smaller(size_bytes: int) -> int:
    """What is tried after the driver refused `size_bytes`; progress is forced where rounding up undoes it.

    As TensorFlow 2.21 has it; jaxlib 0.12.0.1 rounds down instead.
    """
    tried = round_up(nine_tenths(size_bytes), UNIT_BYTES)
    return tried if tried < size_bytes else size_bytes - UNIT_BYTES
