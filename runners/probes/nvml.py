"""Device memory as the NVIDIA driver accounts it to this process (NVML), through the optional package `nvidia-ml-py`.

It is the only measure common to every allocator and framework on a GPU. Written from NVML's interface; it has run on no
GPU yet.
"""

from __future__ import annotations

import os
from typing import Any

from runners.records import Quantity

SOURCE = "nvmlDeviceGetComputeRunningProcesses_v3.usedGpuMemory"


def process_memory(device_kind: str) -> Quantity:
    """Bytes that the driver holds for this process on the first GPU now; None, with the reason in `source`, elsewhere.

    The driver counts whole mappings and the context, so this is at least what the framework has mapped. Frameworks do
    not shrink their pools before they end, which makes a reading at the end of a trial the peak for pooled modes.
    """
    if device_kind != "gpu":
        return Quantity(None, f"no driver figure on device={device_kind}")
    try:
        import pynvml
    except ImportError:
        return Quantity(None, "not measured: nvidia-ml-py is not installed")
    try:
        return _used_bytes(pynvml)
    except pynvml.NVMLError as error:
        return Quantity(None, f"not measured: NVML says {error}")


def _used_bytes(pynvml: Any) -> Quantity:
    pynvml.nvmlInit()
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        processes = pynvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        used = [process.usedGpuMemory for process in processes if process.pid == os.getpid()]
        return (
            Quantity(used[0], SOURCE)
            if used and used[0] is not None
            else Quantity(None, f"{SOURCE} lists no such process")
        )
    finally:
        pynvml.nvmlShutdown()
