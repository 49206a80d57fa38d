"""The machine and the versions that a study ran on, without a host name, a user name or a path."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import psutil

import runners
from runners.records import TrialRecord
from study.config import digest

#: What decides a number and travels with it; read from package metadata, so that nothing is imported.
PACKAGES = (
    "jax", "jaxlib", "libtpu", "tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras", "numpy", "ml-dtypes",
    "hydra-core", "omegaconf", "accelerator-study",
)  # fmt: skip
ALLOWED_ENVIRONMENT = ("OPENBLAS_CORETYPE", "PYTHONDONTWRITEBYTECODE")


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
    """16 hexadecimal digits; equal where two sessions may be pooled.

    What a kernel counts as memory differs by some KiB between nodes alike: memory enters as what is built in.
    """
    machine = facts["machine"]
    rounded = {key: _built_in_bytes(machine[key]) for key in ("memory_bytes", "swap_bytes")}
    return digest({**facts, "machine": {**machine, **rounded}})


def _built_in_bytes(total: int) -> int:
    """A kernel's total rounded up to the next eighth of a power of two: 31.2 GiB is 32, 376 GiB is 384.

    Firmware and kernel keep some hundredths for themselves, so that the total of alike nodes lies well inside a step.
    """
    step = max(1, 2 ** (total.bit_length() - 4))
    return -(-total // step) * step


def scrub(text: str) -> str:
    """The text without this machine's name and without the folders of the user, the study and the interpreter."""
    host, text = socket.gethostname(), scrub_folders(text)
    return re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "<host>", text) if len(host) > 3 else text


@functools.lru_cache(maxsize=1 << 14)
def scrub_folders(text: str) -> str:
    """The text without those folders, and with shared libraries named without theirs. A machine's name may stay.

    This is for what was asked, where a machine called jax must not change the framework.
    """
    for secret, stand_in in _folders():
        text = text.replace(secret, stand_in)
    return _LIBRARY.sub(r"\1", text)


def scrubbed(record: TrialRecord) -> TrialRecord:
    """The record with every text scrubbed: what was asked of folders, what came back of the machine's name too."""
    return replace(
        record,
        spec=each_text(record.spec, scrub_folders),
        outcome=each_text(record.outcome, scrub),
        report=each_text(record.report, scrub),
        plan=each_text(record.plan, scrub),
    )


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A copy of a value (dataclasses, dicts, lists, tuples) with every string in it changed; keys stay."""
    if type(value) in _WITHOUT_TEXT:
        return value
    if isinstance(value, str) and not isinstance(value, Enum):
        return change(value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{one.name: each_text(getattr(value, one.name), change) for one in fields(value)})
    if isinstance(value, dict):
        return {key: each_text(item, change) for key, item in value.items()}
    return type(value)(each_text(item, change) for item in value) if isinstance(value, list | tuple) else value


#: Most values of a long design, settled first.
_WITHOUT_TEXT = frozenset({int, float, bool, type(None)})

#: A shared library with its folder, as LD_PRELOAD names it.
_LIBRARY = re.compile(r"(?:/[\w.+-]+)*/([\w.+-]+\.so(?:\.\d+)*)(?![\w.])")


@functools.cache
def _folders() -> list[tuple[str, str]]:
    known = {
        str(Path(str(runners.__file__)).parent.parent): "<study>",
        str(Path.cwd()): ".",  # after the folder before, which it may be: a path from here can be followed again
        sys.prefix: "<environment>",
        sys.base_prefix: "<python>",
        str(Path.home()): "~",
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
