"""Which devices this machine has, told without importing a framework, and which framework is installed."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

from runners.compiled.targets import COMPILERS

MODULES = {"jax": "jax", "tf": "tensorflow"}
LIBRARY_FOLDERS = (
    "/usr/lib/{machine}-linux-gnu",
    "/usr/lib64",
    "/usr/lib",
    "/usr/local/lib",
    "/lib/{machine}-linux-gnu",
)


@dataclass
class Place:
    """Whether trials run on other machines, which a launcher reaches and this process cannot look at."""

    elsewhere: bool = False


PLACE = Place()


def absence(device: str) -> str | None:
    """Why no such device can be measured here (a sentence), or None where it is present.

    Of other machines nothing is known beforehand: their devices count as present, and each worker looks for itself.
    """
    if PLACE.elsewhere:
        return None
    if device == "gpu" and not list(Path("/proc/driver/nvidia/gpus").glob("*")):
        return "no NVIDIA GPU: the driver lists none under /proc/driver/nvidia/gpus"
    if device == "tpu" and not _tpu_nodes():
        return "no TPU: there is neither /dev/accel* nor a Google device under /dev/vfio"
    return None


def model_names(device: str) -> list[str]:
    """How the machine names its chips: an NVIDIA driver by model, the PCI bus by a TPU's device id."""
    if device == "gpu":
        texts = [path.read_text() for path in Path("/proc/driver/nvidia/gpus").glob("*/information")]
        lines = [line.partition(":") for text in texts for line in text.splitlines()]
        return [value.strip() for key, _, value in lines if key == "Model"]
    return [(vendor.parent / "device").read_text().strip() for vendor in _google_vendors()]


def missing_framework(name: str) -> str | None:
    """The pip line that brings a framework this interpreter lacks, as a sentence, or None where it is installed."""
    module = MODULES.get(name)
    if module is None or importlib.util.find_spec(module) is not None:
        return None
    return f"{module} is not installed in this environment; bring it with: pip install -c constraints.txt -e '.[cpu]'"


def missing_compiler(device: str) -> str | None:
    """The pip line that brings the compiler for a device, as a sentence, or None where it is installed."""
    name, line = COMPILERS[{"gpu": "cuda"}.get(device, device)]
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return f"the compiler for device={device} is not installed ({name}); bring it with: {line}"
    return None


def library(names: list[str]) -> str | None:
    """The full path of the first of these shared libraries that is installed, or None."""
    import platform

    for name in names:
        for folder in LIBRARY_FOLDERS:
            path = Path(folder.format(machine=platform.machine())) / name
            if path.exists():
                return str(path)
    return None


def gpu_id() -> str:
    """The one GPU that trials use, by number or UUID: the first that the study itself was given, else the first."""
    return os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip() or "0"


@cache
def total_memory_bytes(device: str) -> int | None:
    """All memory of the device in bytes (CPU: physical memory), or None where it cannot be read."""
    if device == "cpu":
        return int(psutil.virtual_memory().total)
    tool = shutil.which("nvidia-smi") if device == "gpu" else None
    if tool is None:
        return None
    query = [tool, "--query-gpu=memory.total", "--format=csv,noheader,nounits", f"--id={gpu_id()}"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    return int(answer.stdout.split()[0]) * 2**20 if answer.returncode == 0 else None


def _tpu_nodes() -> list[Path]:
    google = _google_vendors()
    nodes = list(Path("/dev").glob("accel*"))
    return nodes or (google if Path("/dev/vfio").exists() else [])


def _google_vendors() -> list[Path]:
    vendors = Path("/sys/bus/pci/devices").glob("*/vendor")
    return [path for path in vendors if path.read_text().strip() == "0x1ae0"]
