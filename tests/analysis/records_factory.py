"""Makes true journals of invented studies: records of the schema, written by the schema's own encoder.

Every value is a function of what is asked, so that a test can work out what must come out.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runners import lines, records
from runners.records import (
    AllocationResult,
    Counts,
    Match,
    Outcome,
    OutcomeKind,
    Plan,
    Quantity,
    SessionRecord,
    Timings,
    TrialRecord,
    TrialReport,
)
from runners.specs import AllocationSpec, DeviceSpec, FrameworkSpec, ProtocolSpec, TrialSpec, WorkloadSpec

MIB = 2**20
FRAMEWORKS = {"jax": ("jax", "jit"), "tf": ("tf", "xla"), "tf_graph": ("tf", "graph")}
LOSSES = (2.5, 2.25, 2.0)

BASE = {
    "framework": "jax",
    "compile": "jit",
    "device": "cpu",
    "chip": None,
    "allocation": "default",
    "allocation.fraction": None,
    "allocation.limit_bytes": None,
    "workload": "mlp",
    "workload.size": "default",
    "workload.batch_size": 256,
    "workload.dtype": "float32",
    "workload.shape.width": 512,
    "evidence": "measured",
}


def condition(framework: str = "jax", **settings: Any) -> dict[str, Any]:
    """Flat settings of a condition; `workload__batch_size=2` sets workload.batch_size."""
    name, compile = FRAMEWORKS.get(framework, (framework, "jit"))
    named = {key.replace("__", "."): value for key, value in settings.items()}
    return {**BASE, "framework": name, "compile": compile, **named}


def condition_id(settings: Mapping[str, Any], replicate: int = 0) -> str:
    return hashlib.sha256(repr((sorted(settings.items()), replicate)).encode()).hexdigest()[:16]


def trial(
    settings: Mapping[str, Any],
    block: int = 0,
    step_seconds: float | None = 0.004,
    *,
    outcome: str = "ok",
    order: int = 0,
    provenance: str = "machine-one",
    session: str = "session-1",
    steps: int = 50,
    windows: Sequence[float] | None = None,
    starts: Sequence[float] = (),
    interleave: bool = False,
    losses: Iterable[float] = LOSSES,
    reference: Iterable[float] = (),
    input_hash: str | None = "same-bytes",
    parameters: int | None = 1000,
    own_flops: int | None = 2_000_000,
    host_mib: float | None = 300.0,
    device_mib: float | None = None,
    reason: str = "",
    text: str = "",
    phase: str | None = None,
    warnings: Sequence[str] = (),
    plan: Plan | None = None,
    replicate: int = 0,
    started: str = "2026-01-01T00:00:00+00:00",
    start: str = "spawn",
    compile_seconds: float | None = 1.0,
) -> TrialRecord:
    """One record. The median of its windows is `step_seconds` × `steps`, unless `windows` (seconds) are given."""
    ran = outcome == "ok"
    if windows is None:
        windows = [step_seconds * steps * factor for factor in (0.99, 1.0, 1.01)] if ran and step_seconds else []
    spec = _spec(settings, block, order, interleave, replicate)
    jax = settings["framework"] == "jax"
    report = TrialReport(
        versions={"jax": "0.10.2"} if jax else {"tensorflow": "2.21.0"},
        timings=Timings(
            trace_seconds=0.1,
            lower_seconds=0.2 if jax else None,
            compile_seconds=compile_seconds,
            compile_method="ahead_of_time" if jax else "first_minus_second_call",
            first_step_seconds=1.5,
            import_seconds=0.7,
            steady=True,
            steps_per_window=steps,
            window_seconds=list(windows),
            window_start_seconds=list(starts),
        ),
        memory=_memory(host_mib, device_mib),
        allocation=AllocationResult(
            effective="posix_memalign", device_allocator="posix_memalign", host_allocator="glibc"
        ),
        counts=Counts(traces=1, parameters=parameters, own_flops=own_flops, examples_per_step=256),
        match=Match(losses=list(losses), reference_losses=list(reference), input_hash=input_hash, loss_last=0.5),
        counters={"minor_faults": 500.0, "system_seconds": 0.25, "steps_measured": 100},
        warnings=list(warnings),
    )
    if not ran:
        report = TrialReport(versions=report.versions)
    return TrialRecord(
        spec=spec,
        outcome=Outcome(OutcomeKind(outcome), phase=records.Phase(phase) if phase else None, reason=reason, text=text),
        report=report,
        plan=plan,
        session_id=session,
        provenance_hash=provenance,
        start=start,
        started_utc=started,
        elapsed_seconds=9.5,
    )


def _memory(host_mib: float | None, device_mib: float | None) -> dict[str, Quantity]:
    baseline = 200 * MIB
    peak = None if host_mib is None else baseline + int(host_mib * MIB)
    live = None if device_mib is None else int(device_mib * MIB)
    return {
        "host_baseline": Quantity(baseline, "smaps_rollup", 4096),
        "host_peak": Quantity(peak, "VmHWM", 4096),
        "device_live_peak": Quantity(live, "memory_stats"),
        "device_pool_peak": Quantity(None, "memory_stats"),
        "process_peak": Quantity(None, "not measured"),
    }


def _spec(settings: Mapping[str, Any], block: int, order: int, interleave: bool, replicate: int) -> TrialSpec:
    identity = condition_id(settings, replicate)
    return TrialSpec(
        trial_id=f"{identity}-{block}",
        condition_id=identity,
        block=block,
        order=order,
        seed=1000 + block,
        evidence=settings["evidence"],
        framework=FrameworkSpec(settings["framework"], settings["compile"]),
        device=DeviceSpec(settings["device"], settings["chip"]),
        allocation=AllocationSpec(settings["allocation"]),
        workload=WorkloadSpec(
            settings["workload"], "default", settings["workload.batch_size"], settings["workload.dtype"], {"width": 512}
        ),
        protocol=ProtocolSpec("quick", 5, 0.1, 10, 1.0, 3, 0.1, 3, interleave),
        settings={**settings, "replicate": replicate},
    )


def session(
    conditions: Sequence[Mapping[str, Any]],
    blocks: int = 3,
    *,
    name: str = "study-one",
    primary: str | list[str] | None = "framework",
    provenance: str = "machine-one",
    session: str = "session-1",
    started: str = "2026-01-01T00:00:00+00:00",
) -> SessionRecord:
    """The session line of a study over these conditions."""
    keys = dict.fromkeys(key for one in conditions for key in one)
    levels = {key: list(dict.fromkeys(one.get(key) for one in conditions)) for key in keys}
    return SessionRecord(
        session_id=session,
        study=name,
        started_utc=started,
        provenance={"machine": {"processor": "an invented processor", "memory_bytes": 16 * 2**30}, "kernel": "6.1"},
        provenance_hash=provenance,
        design={
            "factors": {key: values for key, values in levels.items() if len(values) > 1},
            "primary": primary,
            "seed": 7,
            "blocks": blocks,
            "protocol": "quick",
            "command": "python -m study -m framework=jax,tf",
            "conditions": [
                {"condition_id": condition_id(one), "replicate": 0, "settings": dict(one)} for one in conditions
            ],
        },
    )


def write(folder: Path, *messages: SessionRecord | TrialRecord, file: str = "a.jsonl") -> Path:
    """A study's folder with one journal file of these lines."""
    journal = folder / "journal"
    journal.mkdir(parents=True, exist_ok=True)
    (journal / file).write_text("".join(map(lines.encode_line, messages)), encoding="utf-8")
    return folder


def study(
    folder: Path,
    conditions: Sequence[Mapping[str, Any]],
    step_seconds: Callable[[int, int], float | None],
    blocks: int = 3,
    **design: Any,
) -> Path:
    """A whole study. `step_seconds` takes (number of the condition, block); None makes that trial run out of memory."""
    lines = []
    for block, (number, one) in itertools.product(range(blocks), enumerate(conditions)):
        value = step_seconds(number, block)
        lines.append(trial(one, block, value, order=number, outcome="oom" if value is None else "ok"))
    return write(folder, session(conditions, blocks, **design), *lines)


def changed(record: TrialRecord, **report: Any) -> TrialRecord:
    """The record with some parts of its report replaced."""
    return dataclasses.replace(record, report=dataclasses.replace(record.report, **report))
