"""The settings of a workload → a `WorkloadSpec`, every dimension resolved for the chosen size."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from runners.specs import WorkloadSpec
from study.errors import MOST, RequestError, require
from study.schema import Workload

#: The one workload that a setting belongs to.
BELONGS_TO = {"model": "keras", "tracing": "dynamic_shapes", "path": "file"}


def workload_spec(workload: Workload) -> WorkloadSpec:
    """The workload that is asked for. Raises `RequestError` for impossible settings."""
    size = workload.size.value
    if size not in workload.sizes:
        raise RequestError(
            f"workload.size={size} is not defined for {workload.name}; it has {', '.join(workload.sizes)}"
        )
    sizes = _sizes(workload)
    batch_size = sizes.pop("batch_size") if workload.batch_size is None else workload.batch_size
    require(1 <= batch_size < MOST, "workload.batch_size", batch_size, "an integer ≥ 1, below 2⁵³")
    given = {key: value for key, value in workload.shape.items() if value is not None}
    unknown = sorted(set(given) - set(sizes)) if workload.path is None else []
    if unknown:
        raise RequestError(
            f"workload.shape.{unknown[0]} is no dimension of {workload.name}; it has {', '.join(sorted(sizes))}"
        )
    shape = {**{key: value for key, value in sizes.items() if key != "batch_size"}, **given}
    for key, value in shape.items():
        require(1 <= value < MOST, f"workload.shape.{key}", value, "an integer ≥ 1, below 2⁵³")
    return WorkloadSpec(
        workload.name,
        size,
        batch_size,
        workload.dtype.value,
        shape,
        workload.donate,
        workload.precision.value,
        mode=_mode(workload),
        path=_own_page(workload),
        model=_of_level(workload, "model"),
        tracing=None if (tracing := _of_level(workload, "tracing")) is None else tracing.value,
    )


def _sizes(workload: Workload) -> dict[str, int]:
    """The numbers of the chosen size; a level outside the package may hold anything."""
    found, where = workload.sizes[workload.size.value], f"workload.sizes.{workload.size.value}"
    fine = isinstance(found, dict) and all(type(value) is int for value in found.values()) and "batch_size" in found
    require(fine, where, found, "integers by name, batch_size among them")
    return dict(found)


def _mode(workload: Workload) -> str | None:
    mode = None if workload.mode is None else workload.mode.value
    if mode is not None and workload.modes and mode not in workload.modes:
        raise RequestError(f"workload.mode={mode} is not offered; {workload.name} has {', '.join(workload.modes)}")
    if mode is not None and not workload.modes:
        raise RequestError(f"workload.mode={mode} has no meaning for {workload.name}, which has one step only")
    return mode


def _of_level(workload: Workload, setting: str) -> Any:
    """A setting that only one workload has; that workload needs it."""
    value, owner = getattr(workload, setting), BELONGS_TO[setting]
    if value is not None and workload.name != owner:
        raise RequestError(f"workload.{setting}={value} has no meaning for {workload.name}; it is for workload={owner}")
    if value is None and workload.name == owner:
        raise RequestError(f"workload={owner} needs workload.{setting}")
    return value


def _own_page(workload: Workload) -> str | None:
    """The path of the user's page, relative to this folder: trials run here too, and records hold no home folder."""
    path = _of_level(workload, "path")
    if path is None:
        return None
    found = Path(path).expanduser()
    require(found.is_file() and found.suffix == ".py", "workload.path", path, "the path of a Python file that exists")
    return os.path.relpath(found)


def page_version(path: str | None) -> str | None:
    """A user's page by name and content: an edited file is another condition."""
    if path is None:
        return None
    return f"{Path(path).name} {hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]}"
