"""Chunks: the pieces, in use or free, that cover a region of memory without a gap; and the free ones by size.

XLA's tsl/framework/bfc_allocator.h sorts free chunks into 21 bins by size. A bin is searched from its smallest chunk
and the bins upwards, so that one list sorted by size finds the same chunk; the bins need no replay.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

#: The unit of every size and address (BFCAllocator::kMinAllocationSize).
UNIT_BYTES = 256
#: A larger remainder of a chunk is never handed out with it (the allocator's default where no fraction is set).
MOST_WASTE_BYTES = 128 * 2**20


@dataclass(eq=False, slots=True)
class Chunk:
    """`requested_bytes` is None while the chunk is free. Neighbours are those of the same region, None at its ends."""

    address: int
    size_bytes: int
    requested_bytes: int | None = None
    previous: Chunk | None = None
    next: Chunk | None = None

    @property
    def free(self) -> bool:
        """Whether no buffer lies in it."""
        return self.requested_bytes is None

    def free_and_alone(self, region_bytes: int) -> bool:
        """Whether it is free and covers its whole region."""
        return self.free and self.size_bytes == region_bytes

    def split(self, size_bytes: int) -> Chunk:
        """Keep the first `size_bytes`; the rest becomes a free chunk of its own, which is returned."""
        rest = Chunk(self.address + size_bytes, self.size_bytes - size_bytes, None, self, self.next)
        if self.next is not None:
            self.next.previous = rest
        self.size_bytes, self.next = size_bytes, rest
        return rest

    def absorb_next(self) -> None:
        """Take the next chunk in."""
        absorbed = self.next
        assert absorbed is not None
        self.size_bytes += absorbed.size_bytes
        self.next = absorbed.next
        if self.next is not None:
            self.next.previous = self

    def onwards(self) -> Iterator[Chunk]:
        """This chunk and those after it, to the end of the region."""
        chunk: Chunk | None = self
        while chunk is not None:
            yield chunk
            chunk = chunk.next


class FreeChunks:
    """Free chunks, by size and then by address: ascending, or `descending` where that is the allocator's order."""

    def __init__(self, descending: bool = False) -> None:
        self._sign = -1 if descending else 1
        self._keys: list[tuple[int, int]] = []
        self._chunks: dict[int, Chunk] = {}

    def add(self, chunk: Chunk) -> None:
        """Put a free chunk in."""
        bisect.insort(self._keys, (chunk.size_bytes, self._sign * chunk.address))
        self._chunks[chunk.address] = chunk

    def remove(self, chunk: Chunk) -> None:
        """Take a chunk out, before its size or address changes."""
        del self._keys[bisect.bisect_left(self._keys, (chunk.size_bytes, self._sign * chunk.address))]
        del self._chunks[chunk.address]

    def best(self, size_bytes: int) -> Chunk | None:
        """The first chunk, in the order of this list, of at least `size_bytes`."""
        place = bisect.bisect_left(self._keys, size_bytes, key=lambda one: one[0])
        return self._chunks[self._sign * self._keys[place][1]] if place < len(self._keys) else None

    def largest_bytes(self) -> int:
        """Size of the largest chunk; 0 where there is none."""
        return self._keys[-1][0] if self._keys else 0

    def __contains__(self, chunk: Chunk) -> bool:
        return self._chunks.get(chunk.address) is chunk


def should_split(size_bytes: int, rounded_bytes: int, most_waste_bytes: int) -> bool:
    """Whether a request takes only a part of a chunk (BFCAllocator::ShouldSplitChunk), or all of it."""
    return size_bytes >= 2 * rounded_bytes or size_bytes - rounded_bytes >= most_waste_bytes
