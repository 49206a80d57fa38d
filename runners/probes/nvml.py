"""Device memory as the NVIDIA driver accounts it (NVML), through the optional package `nvidia-ml-py`.

It is the only measure common to every allocator and framework on a GPU, and the only one of other processes. NVML
counts GPUs by PCI bus and knows nothing of CUDA_VISIBLE_DEVICES, so that the trial's one device is looked up there.
Written from NVML's interface (nvml.h); it has run on no GPU yet.
"""

from __future__ import annotations

import os
from typing import Any

from runners.records import Quantity
from runners.specs import Scalar

PROCESS_SOURCE = "nvmlDeviceGetComputeRunningProcesses_v3.usedGpuMemory"
DEVICE_SOURCE = "nvmlDeviceGetMemoryInfo.used, of all processes"


def readings() -> dict[str, Scalar]:
    """process_bytes, device_used_bytes and device_total_bytes now, or `driver`: why there are none."""
    try:
        import pynvml
    except ImportError:
        return {"driver": "not measured: nvidia-ml-py is not installed"}
    try:
        return _readings(pynvml)
    except pynvml.NVMLError as error:
        return {"driver": f"not measured: NVML says {error}"}


def memory(device_kind: str) -> dict[str, Quantity]:
    """process_peak, device_total_used, device_memory: bytes on the GPU of this process, of all, and that it has.

    None with the reason elsewhere.

    The driver counts whole mappings and the context, so the first is at least what the framework has mapped. Frameworks
    do not shrink their pools before they end, which makes a reading at the end of a trial the peak for pooled modes.
    """
    if device_kind != "gpu":
        return {"process_peak": Quantity(None, f"no driver figure on device={device_kind}")}
    found = readings()
    reason = str(found.get("driver", f"{PROCESS_SOURCE} lists no such process"))
    sources = {
        "process_peak": ("process_bytes", PROCESS_SOURCE),
        "device_total_used": ("device_used_bytes", DEVICE_SOURCE),
        "device_memory": ("device_total_bytes", "nvmlDeviceGetMemoryInfo.total"),
    }
    return {
        name: Quantity(None, reason) if found.get(key) is None else Quantity(int(found[key] or 0), source)
        for name, (key, source) in sources.items()
    }


def _readings(pynvml: Any) -> dict[str, Scalar]:
    pynvml.nvmlInit()
    try:
        handle = _handle(pynvml, os.environ.get("CUDA_VISIBLE_DEVICES", "0"))
        device = pynvml.nvmlDeviceGetMemoryInfo(handle)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        own = [process.usedGpuMemory for process in processes if process.pid == os.getpid()]
        counted = {"device_used_bytes": device.used, "device_total_bytes": device.total}
        return {**counted, "process_bytes": own[0]} if own and own[0] is not None else counted
    finally:
        pynvml.nvmlShutdown()


def _handle(pynvml: Any, visible: str) -> Any:
    """NVML's handle of the first visible device, which the variable names by number, UUID or MIG instance."""
    first = visible.split(",")[0].strip()
    return pynvml.nvmlDeviceGetHandleByIndex(int(first)) if first.isdigit() else pynvml.nvmlDeviceGetHandleByUUID(first)
