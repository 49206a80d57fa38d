"""Readings → mechanism, with the statistics spelled out from the documented key sets of each allocator.

None of these was read on a GPU or a TPU: the keys are those of XLA's `memory_stats()` (xla/pjrt/c/pjrt_c_api.h,
PJRT_Device_MemoryStats) and of TensorFlow's `get_memory_info`, the amounts are made up for a device of 80 GiB.
"""

from __future__ import annotations

from typing import Any

import pytest

from runners.faults import TrialFault
from runners.probes import allocation, mechanism
from runners.records import AllocationResult
from runners.specs import AllocationSpec

GIB, MIB = 2**30, 2**20
DEVICE = {"device_total_bytes": 80 * GIB}


def jax_statistics(**changes: int) -> dict[str, Any]:
    """As documented for BFC: 8 GiB in use of a pool of 60 GiB."""
    counted = {
        "num_allocs": 100,
        "bytes_in_use": 8 * GIB,
        "peak_bytes_in_use": 9 * GIB,
        "largest_alloc_size": GIB,
        "bytes_limit": 60 * GIB,
        "bytes_reserved": 0,
        "peak_bytes_reserved": 0,
        "largest_free_block_bytes": 50 * GIB,
        "pool_bytes": 60 * GIB,
        "peak_pool_bytes": 60 * GIB,
    }
    return {"statistics": "counted", **counted, **changes, **DEVICE}


def jax_async(reserved: int) -> dict[str, Any]:
    """As documented for the CUDA pool: no pool_*, no largest free block, the limit is what was reserved."""
    found = jax_statistics(bytes_limit=reserved, largest_free_block_bytes=0)
    return {key: value for key, value in found.items() if "pool" not in key}


TF_BFC = {"statistics": "counted", "small_raised_bytes": 1024, "large_raised_bytes": 300_032, **DEVICE}


def tf_bfc(limit: int, pool: int, regions: int) -> dict[str, Any]:
    """The same with what TensorFlow logs of a BFC pool."""
    return {**TF_BFC, "logged_limit_bytes": limit, "logged_pool_bytes": pool, "logged_regions": regions}


TF_ASYNC = {"statistics": "counted", "small_raised_bytes": 1000, "large_raised_bytes": 300_000, **DEVICE}
NONE = {"statistics": "none", **DEVICE}
RETURNED = {"process_bytes": GIB, "process_held_bytes": GIB + 256 * MIB, "process_freed_bytes": GIB + 2 * MIB}


@pytest.mark.parametrize(
    ("readings", "limit", "expected"),
    [
        (jax_statistics(), 60 * GIB, "bfc_preallocated"),
        (jax_statistics(), None, "bfc_preallocated"),
        (jax_statistics(pool_bytes=10 * GIB), 60 * GIB, "bfc_limit"),
        (jax_statistics(pool_bytes=10 * GIB), 40 * GIB, "bfc"),
        (jax_statistics(pool_bytes=10 * GIB), None, "bfc"),
        # grown to its limit, bit by bit: the log says that nothing was taken at once
        ({**jax_statistics(), "logged_reserves": False}, None, "bfc"),
        # an occupied device: preallocation got less than its limit, and the pool grows from there
        ({**jax_statistics(pool_bytes=54 * GIB), "logged_reserves": True}, None, "bfc"),
        (jax_statistics(pool_bytes=120 * GIB, bytes_limit=120 * GIB), 120 * GIB, "bfc_unified"),
        (jax_async(60 * GIB), None, "cuda_async_reserved"),
        (jax_async(0), None, "cuda_async"),
        ({**NONE, "logged_allocator": "platform", **RETURNED}, None, "platform"),
        ({**NONE, "logged_allocator": "platform"}, None, "platform"),
        ({**NONE, **RETURNED}, None, "platform"),
        (NONE, None, None),
        # the driver did not get the block back: no pass-through, whatever the log says
        ({**NONE, "logged_allocator": "platform", **RETURNED, "process_freed_bytes": GIB + 256 * MIB}, None, None),
        ({**NONE, "logged_allocator": "vmm"}, None, "vmm"),
        # the log and the statistics contradict each other
        ({**jax_statistics(), "logged_allocator": "cuda_async"}, None, None),
        ({**NONE, "logged_allocator": "bfc", **RETURNED}, None, None),
        (tf_bfc(60 * GIB, 60 * GIB, 1), 60 * GIB, "bfc_preallocated"),
        (tf_bfc(60 * GIB, 6 * MIB, 2), 60 * GIB, "bfc_limit"),
        (tf_bfc(60 * GIB, 60 * GIB, 16), None, "bfc"),
        (tf_bfc(120 * GIB, 120 * GIB, 1), None, "bfc_unified"),
        (TF_BFC, None, None),
        ({**TF_ASYNC, "logged_limit_bytes": 60 * GIB, "process_bytes": 61 * GIB}, None, "cuda_async_reserved"),
        ({**TF_ASYNC, "logged_limit_bytes": 78 * GIB, "process_bytes": GIB}, None, "cuda_async"),
        ({**TF_ASYNC, "logged_limit_bytes": 78 * GIB}, None, None),
        ({**NONE, "logged_allocator": "platform", **RETURNED}, None, "platform"),
    ],
)  # fmt: skip
def test_a_gpu_allocator_is_told_by_its_readings(readings: Any, limit: int | None, expected: str | None) -> None:
    assert mechanism.device_allocator("gpu", readings, limit) == expected
    assert expected is None or expected in mechanism.MECHANISMS


def test_a_tpu_is_told_by_its_reservable_limit() -> None:
    """As documented: BFC's keys without pool_*, and one of its own."""
    counted = {key: value for key, value in jax_statistics().items() if "pool" not in key}
    assert mechanism.device_allocator("tpu", {**counted, "bytes_reservable_limit": 31 * GIB}) == "libtpu"
    assert mechanism.device_allocator("tpu", {"statistics": "none"}) is None


def result(effective: str | None, **readings: Any) -> AllocationResult:
    return AllocationResult(effective, effective, "glibc", readings)


def test_both_are_named_where_a_mode_is_not_effective() -> None:
    """Case 4: `platform` silently served by BFC."""
    asked = AllocationSpec("platform", accepts=("platform",))
    with pytest.raises(
        TrialFault, match="allocation=platform asks for platform, but bfc_preallocated serves"
    ) as caught:
        allocation.require_accepted(asked, result("bfc_preallocated"))
    assert (caught.value.kind, caught.value.reason) == ("invalid", "allocation mode not effective")
    with pytest.raises(TrialFault, match="asks for platform, but an allocator that the readings do not tell serves"):
        allocation.require_accepted(asked, result(None))
    allocation.require_accepted(asked, result("platform"))


def test_a_cap_that_is_not_effective_is_invalid() -> None:
    asked = AllocationSpec("preallocate", 0.5, 40 * GIB, accepts=("bfc_preallocated",))
    allocation.require_accepted(asked, result("bfc_preallocated", bytes_limit=40 * GIB))
    # NVML's total holds about 1 % that CUDA does not hand out
    allocation.require_accepted(asked, result("bfc_preallocated", bytes_limit=int(39.6 * GIB)))
    with pytest.raises(TrialFault, match=f"asks for a limit of {40 * GIB} bytes, but bfc_preallocated with a limit of"):
        allocation.require_accepted(asked, result("bfc_preallocated", bytes_limit=60 * GIB))
