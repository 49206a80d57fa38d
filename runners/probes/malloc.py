"""The malloc of this process: the library that serves it, whether it keeps freed memory, how to hand memory back."""

from __future__ import annotations

import ctypes
import resource
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runners.probes import host
from runners.specs import Scalar

#: Allocators that can stand in for glibc's, by the start of their library's file name after `lib`.
REPLACEMENTS = ("tcmalloc", "jemalloc", "mimalloc")
#: Those that a mode tunes to keep freed memory; by default they give large blocks back.
TUNED = ("glibc", "jemalloc")
#: So large that glibc by default maps it for itself and unmaps it on free (its mmap threshold stays below 32 MiB).
BLOCK_BYTES = 64 * 2**20
#: Share of the block that may be lost (or faulted again) and still counts as retained.
RETAINED_SHARE = 0.10
#: jemalloc's name for "every arena" in a purge request (MALLCTL_ARENAS_ALL).
JEMALLOC_PURGE = b"arena.4096.purge"


@dataclass(frozen=True)
class HostAllocator:
    """The malloc in use (glibc or one of `REPLACEMENTS`, with _retain where so tuned) and the readings that show it."""

    name: str
    readings: dict[str, Scalar]


def probe_host_allocator() -> HostAllocator:
    """Find the library that serves `posix_memalign`, and whether one of `TUNED` keeps freed memory.

    Takes 64 MiB for a moment: call it before the host baseline and `hand_back` afterwards, then neither baseline nor
    peak holds that block.
    """
    library = Path(_library_of("posix_memalign")).name
    name = next((name for name in REPLACEMENTS if library.startswith(f"lib{name}")), "glibc")
    if name not in TUNED:
        return HostAllocator(name, {"malloc_library": library})
    readings = _retention_readings()
    kept = readings["kept_bytes"] >= (1 - RETAINED_SHARE) * BLOCK_BYTES
    few_faults = readings["second_touch_faults"] < RETAINED_SHARE * BLOCK_BYTES / host.PAGE_BYTES
    return HostAllocator(f"{name}_retain" if kept and few_faults else name, {"malloc_library": library, **readings})


def hand_back(allocator: HostAllocator) -> None:
    """Give the allocator's free memory back to the kernel, so that memory which is only kept does not count as used."""
    libc = ctypes.CDLL(None)
    if allocator.name == "tcmalloc":
        libc.MallocExtension_ReleaseFreeMemory()
    elif allocator.name.startswith("jemalloc"):
        libc.mallctl(JEMALLOC_PURGE, None, None, None, ctypes.c_size_t(0))
    elif allocator.name == "mimalloc":
        libc.mi_collect(ctypes.c_bool(True))
    else:
        libc.malloc_trim(ctypes.c_size_t(0))


def _library_of(symbol: str) -> str:
    """Path of the mapped file that the process-wide `symbol` lies in."""
    address = ctypes.cast(getattr(ctypes.CDLL(None), symbol), ctypes.c_void_p).value or 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        start, end = (int(part, 16) for part in line.split(maxsplit=1)[0].split("-"))
        if start <= address < end:
            return line.split(maxsplit=5)[-1]
    raise RuntimeError(f"{symbol} at {address:#x} lies in no mapping of /proc/self/maps")


def _retention_readings() -> dict[str, int]:
    """Touch, free and touch a block again: bytes still resident after the free, faults of the second touch."""
    libc = _libc()
    block = _touched_block(libc, 1)
    held = host.resident_bytes()
    libc.free(block)
    kept = BLOCK_BYTES - (held - host.resident_bytes())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = _touched_block(libc, 2)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    libc.free(block)
    return {"block_bytes": BLOCK_BYTES, "kept_bytes": kept, "second_touch_faults": faults}


def _touched_block(libc: Any, value: int) -> int:
    block = libc.malloc(BLOCK_BYTES)
    if not block:
        raise MemoryError(f"malloc gave no {BLOCK_BYTES} bytes for the allocator probe")
    ctypes.memset(block, value, BLOCK_BYTES)
    return block


def _libc() -> Any:
    libc = ctypes.CDLL(None)
    libc.malloc.argtypes, libc.malloc.restype = [ctypes.c_size_t], ctypes.c_void_p
    libc.free.argtypes, libc.free.restype = [ctypes.c_void_p], None
    return libc
