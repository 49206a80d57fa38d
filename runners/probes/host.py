"""The host's memory and counters of this very process, each with its source and error bound.

Baseline and peak belong together: everything imported and every library page mapped before the baseline, the
high-water mark reset after the workload's arrays are placed, the peak read at the end. So the peak counts the
framework's copies of inputs and weights, the compiler, and the steps, but not the NumPy originals, gone by then.
Nothing is inherited: resident memory and its mark belong to this process, whatever a parent once touched (`ru_maxrss`
would bring the parent's peak along).
"""

from __future__ import annotations

import ctypes
import gc
import os
import resource
from pathlib import Path

from runners.records import Quantity

PAGE_BYTES = resource.getpagesize()
#: linux/mman.h, Linux 5.14 or later.
MADV_POPULATE_READ = 22

SMAPS_ROLLUP = Path("/proc/self/smaps_rollup")
STATUS = Path("/proc/self/status")
CLEAR_REFS = Path("/proc/self/clear_refs")


def settle(warnings: list[str]) -> None:
    """Bring the process into the state the baseline is taken in: file pages mapped, garbage gone, survivors frozen.

    A forked process does not inherit the mapping of file pages and a spawned one maps them bit by bit, so all of them
    are mapped now; else the baseline would depend on how the process was started.
    """
    try:
        populate_file_mappings()
    except OSError as error:
        warnings.append(f"file mappings not populated: {error}")
    gc.collect()
    gc.freeze()


def populate_file_mappings() -> None:
    """Map every page of every readable file mapping. Raises `OSError` where the kernel refuses (before Linux 5.14)."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, _, _, _, *path = line.split(maxsplit=5)
        if not path or not path[0].startswith("/") or path[0].startswith("/dev/") or "r" not in permissions:
            continue
        start, end = (int(address, 16) for address in addresses.split("-"))
        if libc.madvise(start, end - start, MADV_POPULATE_READ) != 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{os.strerror(number)} (madvise MADV_POPULATE_READ needs Linux 5.14)", path[0])


def resident_bytes() -> int:
    """This process's resident memory, summed over its page tables: exact, unlike the counters in `status`."""
    return _kib_field(SMAPS_ROLLUP, "Rss") * 1024


def baseline() -> Quantity:
    """Resident memory now, to be called after `settle` and before the first array of the workload."""
    return Quantity(resident_bytes(), "Rss of /proc/self/smaps_rollup", 0)


def reset_peak() -> str | None:
    """Set the high-water mark to what is resident now. Gives the reason where the kernel does not allow it."""
    try:
        CLEAR_REFS.write_text("5")
    except OSError as error:
        return f"host peak not measured: /proc/self/clear_refs cannot be written ({error})"
    return None


def peak() -> Quantity:
    """Highest resident memory since `reset_peak`."""
    return Quantity(
        _kib_field(STATUS, "VmHWM") * 1024, "VmHWM of /proc/self/status after clear_refs 5", peak_error_bytes()
    )


def peak_error_bytes(cpus: int | None = None) -> int:
    """Error bound of VmHWM: each CPU may hold back a batch of max(32, 2·CPUs) pages from the counter.

    Linux lib/percpu_counter.c, compute_batch_value; for many CPUs this grows as CPUs² pages.
    """
    online = cpus or os.cpu_count() or 1
    return online * max(32, 2 * online) * PAGE_BYTES


def machine_used() -> Quantity:
    """Memory in use on the whole machine, by every process: what a new one could not have (proc(5), MemAvailable)."""
    meminfo = Path("/proc/meminfo")
    used = _kib_field(meminfo, "MemTotal") - _kib_field(meminfo, "MemAvailable")
    return Quantity(used * 1024, "MemTotal − MemAvailable of /proc/meminfo, of all processes")


def machine_memory() -> Quantity:
    """All memory of the machine (proc(5), MemTotal)."""
    return Quantity(_kib_field(Path("/proc/meminfo"), "MemTotal") * 1024, "MemTotal of /proc/meminfo")


def swap_in_use_bytes() -> int:
    """Swap that the whole machine has in use."""
    meminfo = Path("/proc/meminfo")
    return (_kib_field(meminfo, "SwapTotal") - _kib_field(meminfo, "SwapFree")) * 1024


def counters() -> dict[str, float]:
    """Counters that only grow, for differences over the measured windows; one is left out where it cannot be read."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "minor_faults": usage.ru_minflt,
        "major_faults": usage.ru_majflt,
        "voluntary_context_switches": usage.ru_nvcsw,
        "involuntary_context_switches": usage.ru_nivcsw,
        "user_seconds": usage.ru_utime,
        "system_seconds": usage.ru_stime,
        **_throttled_seconds(),
        **_pressure_seconds(),
    }


def _throttled_seconds() -> dict[str, float]:
    """How long the cgroup's CPU quota held its tasks back (cgroup v2, cpu.stat)."""
    own = next((line[3:] for line in _lines(Path("/proc/self/cgroup")) if line.startswith("0::")), None)
    if own is None:
        return {}
    values = dict(line.split() for line in _lines(Path(f"/sys/fs/cgroup{own}/cpu.stat")))
    return {"throttled_seconds": int(values["throttled_usec"]) / 1e6} if "throttled_usec" in values else {}


def _pressure_seconds() -> dict[str, float]:
    """How long some task of the whole machine waited for a CPU (PSI, microseconds in `total`)."""
    some = next((line for line in _lines(Path("/proc/pressure/cpu")) if line.startswith("some")), None)
    return {"cpu_pressure_seconds": int(some.rpartition("total=")[2]) / 1e6} if some else {}


def _lines(path: Path) -> list[str]:
    """The file's lines, or none where this kernel or cgroup version does not offer the file."""
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


def _kib_field(path: Path, name: str) -> int:
    line = next(line for line in path.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1])
