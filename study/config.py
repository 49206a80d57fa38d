"""One composed configuration → one `Condition`. OmegaConf ends here: past this file there are only our own dataclasses.

Every check that needs no launch is made here, and raises `RequestError` naming the setting, its value and the options.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from runners.records import ChipSpec, DeviceSpec, Evidence, FrameworkSpec, Phase, ProtocolSpec, Scalar, WorkloadSpec
from study import chips, colocation
from study.conflicts import require_no_conflict
from study.errors import RequestError
from study.evidence import resolve
from study.schema import Allocation, AllocationEntry, EvidenceRequest, Protocol, Settings, Start, Workload

#: Integers above it are no exact numbers in every reader of a table.
MOST = 2**53
#: What a deadline can be set for.
BOUNDED = (*(one.value for one in Phase), "total")


@dataclass(frozen=True)
class Blocks:
    """How many replicates: at least `least`, and up to `most` until `half_width` (a share; None: exactly `least`)."""

    least: int
    most: int
    half_width: float | None


@dataclass(frozen=True)
class Condition:
    """One level of each factor, checked and resolved.

    `settings` is the flat form (dotted name → value) that makes up `condition_id` and the columns of the table.
    `replicate` tells apart conditions that a sweep named more than once. `tenant` is its number, from 1, among
    `tenants` trials that share the device; None for one that has the device to itself.
    """

    settings: dict[str, Scalar]
    framework: FrameworkSpec
    device: DeviceSpec
    allocation: Allocation
    entry: AllocationEntry | None
    workload: WorkloadSpec
    protocol: ProtocolSpec
    blocks: Blocks
    start: str
    evidence: EvidenceRequest
    replicate: int = 0
    tenant: int | None = None
    tenants: int = 1
    stagger_seconds: float = 0.0

    @functools.cached_property
    def condition_id(self) -> str:
        """16 hexadecimal digits over all settings and the replicate number.

        A solo condition is hashed without the settings of co-location, so that its id is that of a study without them.
        """
        solo = self.tenant is None
        settings = colocation.without(self.settings, *colocation.SETTINGS) if solo else self.settings
        return digest({"settings": settings, "replicate": self.replicate})

    @property
    def tenancy_key(self) -> str:
        """Equal for the tenants of one co-location, and for no others."""
        settings = colocation.without(self.settings, *colocation.OF_ONE_TENANT)
        return digest({"settings": settings, "replicate": self.replicate})


@dataclass(frozen=True)
class StudyOptions:
    """The settings of the study as a whole; the same for all its conditions.

    `theme` is set where the study is one of several themes: it then lies in a folder of that name under the study's,
    and what is absent on this machine does not count against it.
    """

    name: str | None
    seed: int
    blocks: int | None
    primary: str | None
    resume: str | None
    report: bool
    dry_run: bool
    max_seconds: float | None
    search: str | None = None
    theme: str | None = None
    pairing: str = "node"
    trials_per_job: int | None = None

    def in_theme(self, theme: str) -> StudyOptions:
        """The same options for one theme of several, which all land under one name."""
        return replace(self, theme=theme)


def digest(value: Any) -> str:
    """16 hexadecimal digits of SHA-256 over the canonical JSON form of `value`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def condition_from(settings: Settings, company: Sequence[str] = (), tenant: int | None = None) -> Condition:
    """The condition that composed settings ask for. Raises `RequestError` for impossible values.

    `company` are the framework levels of a co-location, of which this condition is number `tenant`, from 1; none: solo.
    """
    allocation = _allocation(settings.allocation)
    workload = _workload(settings.workload)
    kind = settings.device.kind.value
    sheet = chips.sheet(settings.chip, kind, settings.evidence)
    device = DeviceSpec(kind, _chip(settings, sheet), _cpus(settings.device.cpus), sheet)
    framework = FrameworkSpec(settings.framework.name, settings.framework.compile, _python(settings.framework.python))
    protocol = _protocol(settings.protocol, device.kind)
    condition = Condition(
        settings={},
        framework=framework,
        device=device,
        allocation=allocation,
        entry=entry_of(allocation, framework.name, device.kind),
        workload=workload,
        protocol=protocol,
        blocks=_blocks(settings.protocol),
        start=_start(settings.protocol.start, device.kind, resolve(settings.evidence, device)),
        evidence=settings.evidence,
        tenant=tenant,
        tenants=max(1, len(company)),
        stagger_seconds=colocation.stagger(settings.colocation_stagger_seconds) if company else 0.0,
    )
    return replace(condition, settings={**_flat(condition), **_shared(condition, company)})


def options_from(settings: Settings) -> StudyOptions:
    """The study's own settings. Raises `RequestError` for impossible values."""
    study = settings.study
    _require(0 <= study.seed < MOST, "study.seed", study.seed, "an integer ≥ 0, below 2⁵³")
    _require(study.blocks is None or 1 <= study.blocks <= 10_000, "study.blocks", study.blocks, "1 to 10000")
    _require(study.max_seconds is None or study.max_seconds > 0, "study.max_seconds", study.max_seconds, "seconds > 0")
    per_job = study.trials_per_job
    _require(per_job is None or per_job >= 1, "study.trials_per_job", per_job, "an integer ≥ 1")
    if per_job is not None and study.pairing.value == "node":
        raise RequestError(f"study.trials_per_job={per_job} has no meaning with study.pairing=node: a job is a block")
    if study.name is not None:
        bad = study.name.strip() in ("", ".", "..") or "/" in study.name or "\0" in study.name or len(study.name) > 200
        _require(not bad, "study.name", study.name, "one folder name, without a slash, of at most 200 characters")
    if None not in (study.name, study.resume) and Path("outputs", str(study.name)) != Path(str(study.resume)):
        raise RequestError("study.name and study.resume name two folders; give one of them")
    search = None if study.search is None else study.search.value
    plain = {one.name: getattr(study, one.name) for one in dataclasses.fields(StudyOptions) if one.name != "theme"}
    return StudyOptions(**{**plain, "search": search, "pairing": study.pairing.value})


def _require(fine: bool, key: str, value: Any, wanted: str) -> None:
    if not fine:
        raise RequestError(f"{key}={value} is not possible; it takes {wanted}")


def _allocation(allocation: Allocation) -> Allocation:
    if allocation.fraction is not None and allocation.limit_bytes is not None:
        raise RequestError(
            f"allocation.fraction={allocation.fraction} and allocation.limit_bytes={allocation.limit_bytes} "
            "both set the cap; give one of them (allocation.fraction=null clears it)"
        )
    limit = allocation.limit_bytes
    _require_fraction(allocation)
    _require(limit is None or 2**20 <= limit < MOST, "allocation.limit_bytes", limit, "bytes, at least 1048576 (1 MiB)")
    return allocation


def _require_fraction(allocation: Allocation) -> None:
    """A share of the memory; more than all of it where the mode pages what does not fit, and only there."""
    fraction, name = allocation.fraction, allocation.name
    if allocation.oversubscribed:
        fine = fraction is not None and 1 < fraction < math.inf
        wanted = f"a multiple of the memory, f > 1, under allocation={name}: a fraction up to 1 would be ignored"
        _require(fine, "allocation.fraction", fraction, wanted)
        return
    fine = fraction is None or 0 < fraction <= 1
    hint = "" if fraction is None or fraction <= 1 else "; more than all memory needs allocation=unified"
    _require(fine, "allocation.fraction", fraction, f"a share of the memory, 0 < f ≤ 1{hint}")


def entry_of(allocation: Allocation, framework: str, device: str) -> AllocationEntry | None:
    """The mode's entry for one framework and device, checked; None where the level's file has none."""
    found = allocation.frameworks.get(framework, {}).get(device)
    if found is None:
        return None
    return _checked_entry(json.dumps(found), f"conf/allocation/{allocation.name}.yaml, frameworks.{framework}.{device}")


@functools.cache
def _checked_entry(found: str, where: str) -> AllocationEntry:
    """An entry in its JSON form, checked once."""
    try:
        merged = OmegaConf.merge(OmegaConf.structured(AllocationEntry), json.loads(found))
        entry: AllocationEntry = OmegaConf.to_object(merged)  # type: ignore[assignment]
    except OmegaConfBaseException as error:
        raise RequestError(f"{where}: {str(error).splitlines()[0]}") from error
    require_no_conflict(entry, where)
    return entry


def _workload(workload: Workload) -> WorkloadSpec:
    size = workload.size.value
    if size not in workload.sizes:
        raise RequestError(
            f"workload.size={size} is not defined for {workload.name}; it has {', '.join(workload.sizes)}"
        )
    sizes = dict(workload.sizes[size])
    batch_size = sizes.pop("batch_size") if workload.batch_size is None else workload.batch_size
    _require(1 <= batch_size < MOST, "workload.batch_size", batch_size, "an integer ≥ 1, below 2⁵³")
    given = {key: value for key, value in workload.shape.items() if value is not None}
    unknown = sorted(set(given) - set(sizes)) if workload.path is None else []
    if unknown:
        raise RequestError(
            f"workload.shape.{unknown[0]} is no dimension of {workload.name}; it has {', '.join(sorted(sizes))}"
        )
    shape = {**{key: value for key, value in sizes.items() if key != "batch_size"}, **given}
    for key, value in shape.items():
        _require(1 <= value < MOST, f"workload.shape.{key}", value, "an integer ≥ 1, below 2⁵³")
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


def _mode(workload: Workload) -> str | None:
    mode = None if workload.mode is None else workload.mode.value
    if mode is not None and workload.modes and mode not in workload.modes:
        raise RequestError(f"workload.mode={mode} is not offered; {workload.name} has {', '.join(workload.modes)}")
    if mode is not None and not workload.modes:
        raise RequestError(f"workload.mode={mode} has no meaning for {workload.name}, which has one step only")
    return mode


#: The one workload that a setting belongs to.
BELONGS_TO = {"model": "keras", "tracing": "dynamic_shapes", "path": "file"}


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
    _require(found.is_file() and found.suffix == ".py", "workload.path", path, "the path of a Python file that exists")
    return os.path.relpath(found)


def _page_version(path: str | None) -> str | None:
    """A user's page by name and content: an edited file is another condition."""
    if path is None:
        return None
    return f"{Path(path).name} {hashlib.sha256(Path(path).read_bytes()).hexdigest()[:8]}"


def _chip(settings: Settings, sheet: ChipSpec | None) -> str | None:
    """The chip's name for the table: none for a CPU, and `auto` only where a chip of unknown name will be measured."""
    if sheet is not None:
        return sheet.name
    return None if settings.device.kind.value == "cpu" else settings.chip.name


def _cpus(count: int | None) -> tuple[int, ...] | None:
    if count is None:
        return None
    present = sorted(os.sched_getaffinity(0))
    _require(1 <= count <= len(present), "device.cpus", count, f"1 to {len(present)}, the cores this study may use")
    return tuple(present[:count])


def _python(path: str | None) -> str | None:
    if path is None:
        return None
    found = shutil.which(str(Path(path).expanduser()))
    _require(found is not None, "framework.python", path, "the path of a Python interpreter that can be executed")
    return found


def _protocol(protocol: Protocol, device: str) -> ProtocolSpec:
    for key in ("warmup_steps", "warmup_max_steps", "windows", "match_steps"):
        _require(getattr(protocol, key) >= 1, f"protocol.{key}", getattr(protocol, key), "an integer ≥ 1")
    for key in ("warmup_seconds", "warmup_max_seconds", "window_seconds"):
        fine = 0 < getattr(protocol, key) < math.inf
        _require(fine, f"protocol.{key}", getattr(protocol, key), "seconds > 0")
    for least, most in (("warmup_steps", "warmup_max_steps"), ("warmup_seconds", "warmup_max_seconds")):
        fine = getattr(protocol, least) <= getattr(protocol, most)
        _require(fine, f"protocol.{least}", getattr(protocol, least), f"at most protocol.{most}")
    for phase, seconds in protocol.deadlines.items():
        _require(phase in BOUNDED, "protocol.deadlines", phase, f"one of {', '.join(BOUNDED)}")
        _require(seconds > 0, f"protocol.deadlines.{phase}", seconds, "seconds > 0")
    return ProtocolSpec(
        name=protocol.name,
        warmup_steps=protocol.warmup_steps,
        warmup_seconds=protocol.warmup_seconds,
        warmup_max_steps=protocol.warmup_max_steps,
        warmup_max_seconds=protocol.warmup_max_seconds,
        windows=protocol.windows,
        window_seconds=protocol.window_seconds,
        match_steps=protocol.match_steps,
        interleave=device == "cpu" if protocol.interleave is None else protocol.interleave,
        deadline_seconds=dict(protocol.deadlines),
    )


def _blocks(protocol: Protocol) -> Blocks:
    _require(protocol.blocks >= 1, "protocol.blocks", protocol.blocks, "an integer ≥ 1")
    wanted = f"at least protocol.blocks ({protocol.blocks})"
    _require(protocol.max_blocks >= protocol.blocks, "protocol.max_blocks", protocol.max_blocks, wanted)
    width = protocol.half_width
    _require(width is None or 0 < width < 1, "protocol.half_width", width, "a share, 0 < w < 1 (0.01 = 1 %)")
    return Blocks(protocol.blocks, protocol.max_blocks, width)


def _start(start: Start, device: str, evidence: Evidence) -> str:
    """A zygote where no accelerator is opened: on the CPU, and for whatever is only compiled."""
    if start is not Start.auto:
        return start.value
    return "zygote" if device == "cpu" or evidence is Evidence.COMPILED else "spawn"


def _flat(condition: Condition) -> dict[str, Scalar]:
    """Everything that makes this condition another one than its neighbour. Deadlines and block counts do not."""
    framework, device, workload, protocol = (
        condition.framework,
        condition.device,
        condition.workload,
        condition.protocol,
    )
    flat: dict[str, Scalar] = {
        "framework": framework.name,
        "compile": framework.compile,
        # a path is nobody's business: only that it is another interpreter, and which
        "framework.python": None if framework.python is None else f"interpreter {digest(framework.python)[:8]}",
        "device": device.kind,
        "chip": device.chip,
        "device.cpus": None if device.cpus is None else len(device.cpus),
        "allocation": condition.allocation.name,
        "allocation.fraction": condition.allocation.fraction,
        "allocation.limit_bytes": condition.allocation.limit_bytes,
        "workload": workload.name,
        "workload.size": workload.size,
        "workload.batch_size": workload.batch_size,
        "workload.dtype": workload.dtype,
        "workload.donate": workload.donate,
        "workload.precision": workload.precision,
        "workload.mode": workload.mode,
        "workload.model": workload.model,
        "workload.path": _page_version(workload.path),
        "workload.tracing": workload.tracing,
        "evidence": condition.evidence.value,
        "protocol": protocol.name,
        "protocol.start": condition.start,
    }
    flat.update({f"workload.shape.{key}": value for key, value in sorted(workload.shape.items())})
    for key in ("warmup_steps", "warmup_seconds", "warmup_max_steps", "warmup_max_seconds"):
        flat[f"protocol.{key}"] = getattr(protocol, key)
    for key in ("windows", "window_seconds", "match_steps", "interleave"):
        flat[f"protocol.{key}"] = getattr(protocol, key)
    return flat


def _shared(condition: Condition, company: Sequence[str]) -> dict[str, Scalar]:
    """The settings of co-location; null where they have no meaning."""
    return {
        colocation.COLOCATION: colocation.canonical(company) if company else colocation.SOLO,
        colocation.TENANT: condition.tenant,
        colocation.STAGGER: condition.stagger_seconds or None,
    }
