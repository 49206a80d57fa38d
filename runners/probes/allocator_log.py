"""What allocators say of themselves in the log of their process: pure functions of its text, and where that text is.

TensorFlow and XLA name the allocator that they build, and its limit, at level INFO (TF_CPP_MIN_LOG_LEVEL=0):
tensorflow/core/common_runtime/process_state.cc, gpu/gpu_process_state.cc and gpu/gpu_device.cc; XLA's
pjrt/gpu/se_gpu_pjrt_client.cc and pjrt/gpu/gpu_helpers.cc. With TF_CPP_VMODULE=bfc_allocator=1 every region that a BFC
pool takes is logged with both ends, and at an allocation that fails the whole map of its chunks
(xla/tsl/framework/bfc_allocator.cc): regions and chunks are exact to the byte, sizes in words are rounded.
"""

from __future__ import annotations

import re
from pathlib import Path

from runners.specs import Scalar

#: The log that a study gives each trial; a terminal or a pipe cannot be read back.
OWN_LOG = Path("/proc/self/fd/2")

#: What makes both frameworks write these lines, for a process on a GPU.
VERBOSE = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "bfc_allocator=1"}

#: A line → the kind of device allocator that it announces.
ANNOUNCED = {
    "Using BFC allocator.": "bfc",
    "Using platform allocator.": "platform",
    "Using VMM device-address allocator.": "vmm",
    "for CudaAsyncAllocator.": "cuda_async",
    "Using CUDA malloc allocator for GPU": "platform",
    "Using CUDA malloc Async allocator for GPU": "cuda_async",
}
_LIMITS = (
    re.compile(r"BFCAllocator with memory limit of (\d+) MB for ProcessState CPU allocator"),
    re.compile(r"Created device \S*device:GPU:0 with (\d+) MB memory"),
)
#: The amount is a number in some releases and in words (15.11GiB) in others.
_XLA_POOL = re.compile(r"XLA backend (allocating|will use up to) (\S+) .*?on device 0 for (?:BFC|CudaAsync)Allocator")
_TAKEN = re.compile(
    r"Extending allocation by \S+ bytes for (\S+)\.\n(?:.*\n)??.*Allocated memory at 0x([0-9a-f]+) to 0x([0-9a-f]+)"
)
_DUMP = re.compile(r"BFCAllocator dump for (\S+)")
_FREE_CHUNK = re.compile(r"Free +at [0-9a-f]+ of size (\d+)")
#: The pools that serve device arrays: of the first GPU, and of the CPU device where it is on BFC.
DEVICE_POOLS = ("GPU_0_bfc", "bfc_cpu_allocator_for_gpu")


def own_log() -> str:
    """The text of this process's own log; empty where standard error is no file."""
    return OWN_LOG.read_text(errors="replace") if OWN_LOG.is_file() else ""


def log_readings(text: str) -> dict[str, Scalar]:
    """What the log says of the device allocator; whatever it does not say is left out. Limits come in whole MiB."""
    readings: dict[str, Scalar] = {}
    announced = [kind for line, kind in ANNOUNCED.items() if line in text]
    if announced:
        readings["logged_allocator"] = announced[-1]
    limits = [int(found) for pattern in _LIMITS for found in pattern.findall(text)]
    if limits:
        readings["logged_limit_bytes"] = limits[-1] * 2**20
    pool = _XLA_POOL.search(text)
    if pool:
        readings["logged_reserves"] = pool[1] == "allocating"
        if pool[2].isdigit():
            readings["logged_limit_bytes"] = int(pool[2])
    regions = region_bytes(text)
    if regions:
        readings["logged_pool_bytes"], readings["logged_regions"] = sum(regions), len(regions)
    return readings


def region_bytes(text: str) -> list[int]:
    """The size of every region that the device's BFC pool took, in order; it gives none back without collection."""
    return [int(end, 16) - int(start, 16) for name, start, end in _TAKEN.findall(text) if name in DEVICE_POOLS]


def largest_free_bytes(text: str) -> int | None:
    """The largest free chunk in the last map that a BFC pool of the device printed, which it does where it fails.

    None without a map; 0 where it shows no free chunk.
    """
    dumps = [found for found in _DUMP.finditer(text) if found[1] in DEVICE_POOLS]
    if not dumps:
        return None
    return max(map(int, _FREE_CHUNK.findall(text[dumps[-1].end() :])), default=0)
