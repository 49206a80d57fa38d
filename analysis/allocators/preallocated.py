"""JAX's preallocated pool as of jaxlib 0.12.0.1: one fixed region, filled from its upper end downwards.

Pinned to that version: read in OpenXLA's xla/tsl/framework/bfc_allocator.cc (spatial partitioning) and in the machine
code of jax-cuda12-pjrt 0.12.0.1 (AllocateChunkFromHighEnd: one split rule for holes and gap). jaxlib 0.10.2 holds
none of it and preallocates by the classic pool of `analysis.allocators.bfc`. Not run on a GPU.

Collective memory takes the lower end; a trial uses one device, so that the lower end stays empty here.
"""

from __future__ import annotations

from analysis.allocators.chunks import MOST_WASTE_BYTES, UNIT_BYTES, Chunk, FreeChunks, should_split
from analysis.allocators.driver import MIB, Driver, nine_tenths, round_up
from analysis.allocators.pool import Pool

#: The limit is rounded up to this, and what is tried after a refusal of the driver rounded down.
PAGE_BYTES = 2 * MIB


class UpperEndPool(Pool):
    """One region taken at the first request: buffers and the holes between them above, one gap below.

    A request takes the best hole (by size, of equal ones the highest address), else the upper end of the gap. A buffer
    freed beside the gap joins it.
    """

    def __init__(self, driver: Driver, limit_bytes: int) -> None:
        super().__init__(driver)
        self.limit_bytes = round_up(limit_bytes, PAGE_BYTES)
        self._base: int | None = None
        self._first: Chunk | None = None
        self._gap: Chunk | None = None
        self._in_use: dict[int, Chunk] = {}
        self._holes = FreeChunks(descending=True)

    def allocate(self, size_bytes: int) -> int | None:
        """From the best hole, else from the gap: a part of it at its upper end, or all of it."""
        rounded = round_up(size_bytes, UNIT_BYTES)
        if self._first is None and not self._reserve(rounded):
            return None
        hole = self._holes.best(rounded)
        if hole is not None:
            self._holes.remove(hole)
            taken = self._upper_part(hole, rounded)
            if taken is not hole:
                self._holes.add(hole)
        elif self._gap is not None and self._gap.size_bytes >= rounded:
            taken = self._upper_part(self._gap, rounded)
            self._gap = None if taken is self._gap else self._gap
        else:
            return None
        taken.requested_bytes = size_bytes
        self._in_use[taken.address] = taken
        self._count_allocation(taken.size_bytes)
        return taken.address

    def free(self, address: int) -> None:
        """Free the chunk; it joins the gap where it borders on it, or on the region's lower end, else it is a hole."""
        chunk = self._in_use.pop(address)
        self.live_bytes -= chunk.size_bytes
        chunk.requested_bytes = None
        borders = chunk.previous is None or chunk.previous is self._gap
        if chunk.next is not None and chunk.next.free:
            self._holes.remove(chunk.next)
            chunk.absorb_next()
        if chunk.previous is not None and chunk.previous.free:
            chunk = chunk.previous
            if not borders:
                self._holes.remove(chunk)
            chunk.absorb_next()
        if borders:
            self._gap = chunk
        else:
            self._holes.add(chunk)

    def largest_free_bytes(self) -> int:
        """Size of the largest hole, or of the gap."""
        return max(self._holes.largest_bytes(), self._gap.size_bytes if self._gap else 0)

    def chunks(self) -> dict[int, list[Chunk]]:
        """The chunks of the region in order, by its base address; empty before the first request."""
        return {} if self._first is None else {self._first.address: list(self._first.onwards())}

    @property
    def gap_bytes(self) -> int:
        """Size of the gap."""
        return self._gap.size_bytes if self._gap else 0

    def _upper_part(self, chunk: Chunk, rounded: int) -> Chunk:
        """The upper `rounded` bytes of a free chunk, split off; the chunk itself where the rule hands it out whole."""
        whole = not should_split(chunk.size_bytes, rounded, MOST_WASTE_BYTES)
        return chunk if whole else chunk.split(chunk.size_bytes - rounded)

    def _reserve(self, rounded: int) -> bool:
        """The region, smaller by steps of a tenth where the driver refuses; False below the request."""
        size = self.limit_bytes
        while (base := self.driver.reserve(size) if size >= rounded else 0) is None:
            size = min(nine_tenths(size) // PAGE_BYTES * PAGE_BYTES, size - PAGE_BYTES)
        if size < rounded:
            return False
        self._first = self._gap = Chunk(base, size)
        self._count_growth(size)
        return True
