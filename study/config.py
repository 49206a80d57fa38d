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

from runners.records import Evidence, Phase
from runners.specs import ChipSpec, DeviceSpec, FrameworkSpec, ProtocolSpec, Scalar, WorkloadSpec
from study import chips, colocation
from study.conflicts import require_no_conflict
from study.errors import MOST, RequestError, require
from study.evidence import resolve
from study.schema import Allocation, AllocationEntry, EvidenceRequest, Protocol, Settings, Start
from study.workload import page_version, workload_spec

#: Options that only a preset of several themes sets.
OF_THEMES = ("theme", "began_seconds")
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
    and what is absent on this machine does not count against it; `began_seconds` is then when the first theme began, on
    CLOCK_MONOTONIC, from which `max_seconds` counts.
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
    began_seconds: float | None = None
    pairing: str = "node"
    trials_per_job: int | None = None

    def in_theme(self, theme: str, began_seconds: float) -> StudyOptions:
        """The same options for one theme of several, which all land under one name and share one `max_seconds`."""
        return replace(self, theme=theme, began_seconds=began_seconds)


def digest(value: Any) -> str:
    """16 hexadecimal digits of SHA-256 over the canonical JSON form of `value`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def condition_from(settings: Settings, company: Sequence[str] = (), tenant: int | None = None) -> Condition:
    """The condition that composed settings ask for. Raises `RequestError` for impossible values.

    `company` are the framework levels of a co-location, of which this condition is number `tenant`, from 1; none: solo.
    """
    allocation = _allocation(settings.allocation)
    workload = workload_spec(settings.workload)
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
    require(0 <= study.seed < MOST, "study.seed", study.seed, "an integer ≥ 0, below 2⁵³")
    require(study.blocks is None or 1 <= study.blocks <= 10_000, "study.blocks", study.blocks, "1 to 10000")
    require(study.max_seconds is None or study.max_seconds > 0, "study.max_seconds", study.max_seconds, "seconds > 0")
    per_job = study.trials_per_job
    require(per_job is None or per_job >= 1, "study.trials_per_job", per_job, "an integer ≥ 1")
    if per_job is not None and study.pairing.value == "node":
        raise RequestError(f"study.trials_per_job={per_job} has no meaning with study.pairing=node: a job is a block")
    if study.name is not None:
        bad = study.name.strip() in ("", ".", "..") or "/" in study.name or "\0" in study.name or len(study.name) > 200
        require(not bad, "study.name", study.name, "one folder name, without a slash, of at most 200 characters")
    if None not in (study.name, study.resume) and Path("outputs", str(study.name)) != Path(str(study.resume)):
        raise RequestError("study.name and study.resume name two folders; give one of them")
    search = None if study.search is None else study.search.value
    plain = {
        one.name: getattr(study, one.name) for one in dataclasses.fields(StudyOptions) if one.name not in OF_THEMES
    }
    return StudyOptions(**{**plain, "search": search, "pairing": study.pairing.value})


def _allocation(allocation: Allocation) -> Allocation:
    if allocation.fraction is not None and allocation.limit_bytes is not None:
        raise RequestError(
            f"allocation.fraction={allocation.fraction} and allocation.limit_bytes={allocation.limit_bytes} "
            "both set the cap; give one of them (allocation.fraction=null clears it)"
        )
    limit = allocation.limit_bytes
    _require_fraction(allocation)
    require(limit is None or 2**20 <= limit < MOST, "allocation.limit_bytes", limit, "bytes, at least 1048576 (1 MiB)")
    return allocation


def _require_fraction(allocation: Allocation) -> None:
    """A share of the memory; more than all of it where the mode pages what does not fit, and only there."""
    fraction, name = allocation.fraction, allocation.name
    if allocation.oversubscribed:
        fine = fraction is not None and 1 < fraction < math.inf
        wanted = f"a multiple of the memory, f > 1, under allocation={name}: a fraction up to 1 would be ignored"
        require(fine, "allocation.fraction", fraction, wanted)
        return
    fine = fraction is None or 0 < fraction <= 1
    hint = "" if fraction is None or fraction <= 1 else "; more than all memory needs allocation=unified"
    require(fine, "allocation.fraction", fraction, f"a share of the memory, 0 < f ≤ 1{hint}")


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


def _chip(settings: Settings, sheet: ChipSpec | None) -> str | None:
    """The chip's name for the table: none for a CPU, and `auto` only where a chip of unknown name will be measured."""
    if sheet is not None:
        return sheet.name
    return None if settings.device.kind.value == "cpu" else settings.chip.name


def _cpus(count: int | None) -> tuple[int, ...] | None:
    if count is None:
        return None
    present = sorted(os.sched_getaffinity(0))
    require(1 <= count <= len(present), "device.cpus", count, f"1 to {len(present)}, the cores this study may use")
    return tuple(present[:count])


def _python(path: str | None) -> str | None:
    if path is None:
        return None
    found = shutil.which(str(Path(path).expanduser()))
    require(found is not None, "framework.python", path, "the path of a Python interpreter that can be executed")
    return found


def _protocol(protocol: Protocol, device: str) -> ProtocolSpec:
    for key in ("warmup_steps", "warmup_max_steps", "windows", "match_steps"):
        require(getattr(protocol, key) >= 1, f"protocol.{key}", getattr(protocol, key), "an integer ≥ 1")
    for key in ("warmup_seconds", "warmup_max_seconds", "window_seconds"):
        fine = 0 < getattr(protocol, key) < math.inf
        require(fine, f"protocol.{key}", getattr(protocol, key), "seconds > 0")
    for least, most in (("warmup_steps", "warmup_max_steps"), ("warmup_seconds", "warmup_max_seconds")):
        fine = getattr(protocol, least) <= getattr(protocol, most)
        require(fine, f"protocol.{least}", getattr(protocol, least), f"at most protocol.{most}")
    for phase, seconds in protocol.deadlines.items():
        require(phase in BOUNDED, "protocol.deadlines", phase, f"one of {', '.join(BOUNDED)}")
        require(seconds > 0, f"protocol.deadlines.{phase}", seconds, "seconds > 0")
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
    require(protocol.blocks >= 1, "protocol.blocks", protocol.blocks, "an integer ≥ 1")
    wanted = f"at least protocol.blocks ({protocol.blocks})"
    require(protocol.max_blocks >= protocol.blocks, "protocol.max_blocks", protocol.max_blocks, wanted)
    width = protocol.half_width
    require(width is None or 0 < width < 1, "protocol.half_width", width, "a share, 0 < w < 1 (0.01 = 1 %)")
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
        "workload.path": page_version(workload.path),
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
