"""Readings → mechanism: which allocator serves the device's arrays. Pure functions; what is read is in allocation.py.

The rules follow what each allocator counts. XLA's `memory_stats()`: BFC tells its pool (`pool_bytes`) and its limit;
the CUDA pool has no `pool_bytes`, and its `bytes_limit` is what it reserved, 0 where it reserved nothing; a pass-
through has no statistics at all; a TPU alone has `bytes_reservable_limit`. TensorFlow tells bytes in use only: a buffer
of 1,000 bytes counts as 1,024 under BFC, which rounds to 256, and as 1,000 in the CUDA pool; `cuda_malloc` has no
statistics (xla/tsl/framework/bfc_allocator.cc, xla/stream_executor/gpu/gpu_cudamallocasync_allocator.cc).
"""

from __future__ import annotations

from runners.specs import Scalar

#: The closed list: mechanism → what it is.
MECHANISMS = {
    "posix_memalign": "each buffer straight from malloc's aligned call, given back when freed",
    "mkl_pool": "TensorFlow with oneDNN on the CPU: a growing pool for buffers of 256 KiB or more",
    "bfc": "best-fit with coalescing, growing on demand",
    "bfc_limit": "best-fit with coalescing, growing up to the limit asked for",
    "bfc_preallocated": "best-fit with coalescing over one region taken at the start (GPU)",
    "bfc_unified": "best-fit with coalescing over managed memory, larger than the device (GPU)",
    "platform": "each buffer straight from the device driver, without statistics (GPU)",
    "vmm": "CUDA's virtual memory management, without statistics (GPU)",
    "cuda_async": "the CUDA driver's own stream-ordered pool, growing on demand (GPU)",
    "cuda_async_reserved": "the CUDA driver's own stream-ordered pool, reserved at the start (GPU)",
    "libtpu": "libtpu's best-fit allocator over the whole chip (TPU)",
    "glibc_retain": "glibc's malloc, tuned so that freed memory stays mapped",
    "tcmalloc": "tcmalloc in place of glibc's malloc",
    "jemalloc": "jemalloc in place of glibc's malloc",
    "jemalloc_retain": "jemalloc, tuned so that freed memory stays mapped",
    "mimalloc": "mimalloc in place of glibc's malloc",
}
#: Limits are logged in whole MiB.
LOG_STEP_BYTES = 2**20
#: NVML's total holds memory that CUDA does not hand out (nvmlMemory_v2_t.reserved), so that a share of the one is no
#: exact share of the other.
LIMIT_SHARE = 0.03
#: Share of a block by which memory may miss its amount before the block and still count as given back.
RETURNED_SHARE = 0.1

Readings = dict[str, Scalar]


def device_allocator(device_kind: str, readings: Readings, limit_bytes: int | None = None) -> str | None:
    """The framework's allocator, from its readings; None where they do not tell it, or contradict each other.

    `limit_bytes` is the cap that was asked for.
    """
    if device_kind == "cpu":
        return _cpu_allocator(readings, limit_bytes)
    if device_kind == "tpu":
        return "libtpu" if "bytes_reservable_limit" in readings else None
    return _gpu_allocator(readings, limit_bytes)


def limit_found(readings: Readings) -> int | None:
    """The limit that the allocator itself tells, in bytes: from its statistics, else from its log."""
    return _integer(readings, "bytes_limit") or _integer(readings, "logged_limit_bytes")


def _cpu_allocator(readings: Readings, limit_bytes: int | None) -> str:
    """No statistics, or statistics that stay at zero under a held buffer: a pass-through to posix_memalign.

    BFC counts every buffer, rounded up to 256 bytes (1,000 → 1,024). The oneDNN pool counts 300,000 bytes (→ 300,032)
    but not 1,000, which it leaves to malloc.
    """
    if readings["statistics"] != "counted":
        return "posix_memalign"
    if not _integer(readings, "small_raised_bytes"):
        return "mkl_pool"
    logged = _integer(readings, "logged_limit_bytes")
    limited = limit_bytes is not None and logged == limit_bytes // LOG_STEP_BYTES * LOG_STEP_BYTES
    return "bfc_limit" if limited else "bfc"


def _gpu_allocator(readings: Readings, limit_bytes: int | None) -> str | None:
    kind = _pass_through(readings) if readings["statistics"] == "none" else _counting_kind(readings)
    if kind != readings.get("logged_allocator", kind):
        return None
    if kind == "bfc":
        return _bfc(readings, limit_bytes)
    return _cuda_async(readings) if kind == "cuda_async" else kind


def _counting_kind(readings: Readings) -> str | None:
    """Which of the two pools counts so."""
    if "small_raised_bytes" in readings:
        return {1024: "bfc", 1000: "cuda_async"}.get(_integer(readings, "small_raised_bytes") or 0)
    if "pool_bytes" in readings:
        return "bfc"
    return "cuda_async" if "bytes_limit" in readings else None


def _pass_through(readings: Readings) -> str | None:
    """Without statistics: the driver must have got a freed block back. VMM defers that; the log alone tells it."""
    logged, before = readings.get("logged_allocator"), _integer(readings, "process_bytes")
    if logged == "vmm":
        return "vmm"
    held, freed = _integer(readings, "process_held_bytes"), _integer(readings, "process_freed_bytes")
    if before is None or held is None or freed is None:
        return "platform" if logged == "platform" else None
    block = held - before
    return "platform" if block > 0 and freed - before <= RETURNED_SHARE * block else None


def _bfc(readings: Readings, limit_bytes: int | None) -> str | None:
    """By the pool against its limit and the device. A pool that reached its limit bit by bit is a growing one."""
    pool = _integer(readings, "pool_bytes") or _integer(readings, "logged_pool_bytes")
    limit, device = limit_found(readings), _integer(readings, "device_total_bytes")
    if pool is None or limit is None:
        return None
    if device is not None and pool > device:
        return "bfc_unified"
    regions = readings.get("logged_regions")
    at_once = readings.get("logged_reserves", regions is None or regions == 1)
    if at_once and pool + LOG_STEP_BYTES > limit:
        return "bfc_preallocated"
    return "bfc_limit" if limit_bytes is not None and close(limit, limit_bytes) else "bfc"


def _cuda_async(readings: Readings) -> str | None:
    """Reserved or not: JAX's `bytes_limit` says it; under TensorFlow the driver's count against the limit does."""
    if "bytes_limit" in readings:
        return "cuda_async_reserved" if _integer(readings, "bytes_limit") else "cuda_async"
    mapped, limit = _integer(readings, "process_bytes"), _integer(readings, "logged_limit_bytes")
    if mapped is None or limit is None:
        return None
    return "cuda_async_reserved" if mapped >= limit else "cuda_async"


def close(found_bytes: int, asked_bytes: int) -> bool:
    """Whether a GPU's limit is the one asked for, as far as the device's total is known alike on both sides."""
    return abs(found_bytes - asked_bytes) <= LIMIT_SHARE * asked_bytes + LOG_STEP_BYTES


def _integer(readings: Readings, key: str) -> int | None:
    value = readings.get(key)
    return None if value is None else int(value)
