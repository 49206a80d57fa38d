"""The machine and the versions that a study ran on, without a host name, a user name or a path."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import socket
import sys
from pathlib import Path
from typing import Any

import psutil

import runners
from study.config import digest

#: What decides a number and travels with it; read from package metadata, so that nothing is imported.
PACKAGES = (
    "jax", "jaxlib", "libtpu", "tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "numpy", "ml-dtypes",
    "hydra-core", "omegaconf", "accelerator-study",
)  # fmt: skip
ALLOWED_ENVIRONMENT = ("OPENBLAS_CORETYPE", "LANG", "PYTHONDONTWRITEBYTECODE")


def provenance() -> dict[str, Any]:
    """Machine, kernel, interpreter, versions, code and allow-listed environment as plain values."""
    return {
        "machine": {
            "processor": _processor(),
            "cores_usable": len(os.sched_getaffinity(0)),
            "cores_present": os.cpu_count(),
            "memory_bytes": psutil.virtual_memory().total,
            "swap_bytes": psutil.swap_memory().total,
            "governor": _governor(),
            "virtual": _hypervisor(),
        },
        "kernel": platform.release(),
        "libc": " ".join(platform.libc_ver()),
        "python": platform.python_version(),
        "versions": {name: version for name in PACKAGES if (version := _version(name))},
        "tensorflow_distributions": _distributions("tensorflow"),
        "code_hash": _code_hash(),
        "environment": {name: os.environ[name] for name in ALLOWED_ENVIRONMENT if name in os.environ},
    }


def provenance_hash(facts: dict[str, Any]) -> str:
    """16 hexadecimal digits; equal where two sessions may be pooled."""
    return digest(facts)


def scrub(text: str) -> str:
    """The text without this machine's name and without the folders of the user, the study and the interpreter."""
    for secret, stand_in in _secrets():
        text = text.replace(secret, stand_in)
    return text


@functools.cache
def _secrets() -> list[tuple[str, str]]:
    known = {
        str(Path.cwd()): ".",
        str(Path(str(runners.__file__)).parent.parent): "<study>",
        sys.prefix: "<environment>",
        sys.base_prefix: "<python>",
        str(Path.home()): "~",
        socket.gethostname(): "<host>",
    }
    usable = {secret: stand_in for secret, stand_in in known.items() if len(secret) > 3}
    return sorted(usable.items(), key=lambda pair: -len(pair[0]))


def _processor() -> str | None:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return platform.processor() or None


def _governor() -> str | None:
    path = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    return path.read_text().strip() if path.exists() else None


def _hypervisor() -> bool:
    return any(
        line.startswith("flags") and " hypervisor" in line for line in Path("/proc/cpuinfo").read_text().splitlines()
    )


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _distributions(module: str) -> list[str]:
    """Which distributions provide a module; more than one break each other."""
    return sorted(set(importlib.metadata.packages_distributions().get(module, [])))


def _code_hash() -> str:
    """Over the code that runs inside a trial: a changed runner is another instrument."""
    folder = Path(str(runners.__file__)).parent
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        whole.update(str(path.relative_to(folder)).encode())
        whole.update(path.read_bytes())
    return whole.hexdigest()[:16]
