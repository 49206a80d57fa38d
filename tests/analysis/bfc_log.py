"""Reads what TensorFlow's BFC allocator logs: the regions as they were taken, and the map at a request that failed.

Needs TF_CPP_MIN_LOG_LEVEL=0, and TF_CPP_VMODULE=bfc_allocator=1 for the regions in the order of their taking.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TAKEN = re.compile(r"Allocated memory at 0x([0-9a-f]+) to 0x([0-9a-f]+)")
_REGION = re.compile(r"Next region of size (\d+)")
_CHUNK = re.compile(r"(InUse|Free ) at ([0-9a-f]+) of size (\d+) ")
_ALLOCATIONS = re.compile(r"NumAllocs: +(\d+)")
_DUMP = "BFCAllocator dump for"


@dataclass(frozen=True)
class MappedChunk:
    """A chunk of the map: its absolute address, its bytes, and whether a buffer lies in it."""

    address: int
    size_bytes: int
    in_use: bool


@dataclass
class BfcLog:
    """`bases` are the regions' addresses in the order of their taking; `regions` is the last map, in its own order."""

    bases: list[int]
    regions: list[tuple[int, list[MappedChunk]]]
    allocations_count: int | None


def read(text: str) -> BfcLog:
    """The log of one process. Without a failed request there is no map, and no number of allocations."""
    dump = text[text.rfind(_DUMP) :] if _DUMP in text else ""
    regions: list[tuple[int, list[MappedChunk]]] = []
    for line in dump.splitlines():
        if found := _REGION.search(line):
            regions.append((int(found[1]), []))
        elif found := _CHUNK.search(line):
            regions[-1][1].append(MappedChunk(int(found[2], 16), int(found[3]), found[1] == "InUse"))
    count = _ALLOCATIONS.search(dump)
    return BfcLog([int(base, 16) for base, _ in _TAKEN.findall(text)], regions, int(count[1]) if count else None)
