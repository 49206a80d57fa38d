"""One decoded journal line → one row of the table, column by column, plus what pairs need beyond the table.

It works on the plain object of `lines.decode_line`: building the dataclasses would take ten times as long, which at
100,000 records is minutes. What does not have the schema's shape is a `RecordError`, as it is there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from analysis import windows
from analysis.allocators.tenants import Chip
from analysis.allocators.traces import PlannedBuffers
from runners.lines import RecordError
from runners.records import Evidence, OutcomeKind
from runners.specs import SCHEMA_VERSION

#: The package whose version counts as the framework's.
VERSION_KEYS = {"jax": "jax", "tf": "tensorflow"}

#: The `colocation` of a trial that has its device to itself.
SOLO = "solo"

_OUTCOMES = frozenset(kind.value for kind in OutcomeKind)
_INT64_MAX = 2**63 - 1

#: Beyond these no clock can have shown a time, nor a design have a place: thirty years, the clock's tick, 2³¹ trials.
_LONGEST_SECONDS, _TICK_SECONDS, _MOST_PLACES = 1e9, 1e-9, 2**31


@dataclass
class Row:
    """A trial: `values` by column name, and beside them what is no column.

    `series` is float64 of shape (2, windows), start and seconds a step of each window, for interleaved trials only;
    `losses` and `reference_losses` are float64 of shape (steps,), `timeline` int64 of shape (points,): a plan's live
    bytes. `buffers` are a plan's, where the record has their sizes; `chip` is the GPU that it was made for.
    """

    values: dict[str, Any]
    settings: dict[str, Any]
    started_utc: str
    losses: np.ndarray
    reference_losses: np.ndarray
    input_hash: str | None
    precision: str
    series: np.ndarray | None
    timeline: np.ndarray | None = None
    buffers: PlannedBuffers | None = None
    chip: Chip | None = None


def trial_row(body: dict[str, Any]) -> Row:
    """The row of a decoded trial line.

    Raises:
        RecordError: another kind of line, another schema version, or a field that is missing or of the wrong type.
    """
    if body.get("kind") != "trial":
        raise RecordError(f"a line of kind {body.get('kind')!r}, neither session nor trial")
    try:
        return _row(body)
    except RecordError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RecordError(f"a trial without the schema's shape ({type(error).__name__}: {error})") from None


def _row(body: dict[str, Any]) -> Row:
    spec, report = body["spec"], body["report"]
    if spec.get("schema_version") != SCHEMA_VERSION:
        raise RecordError(f"schema version {spec.get('schema_version')!r}; this program reads {SCHEMA_VERSION}")
    losses = _floats(report["match"]["losses"])
    values = {
        **_asked(spec),
        **_ended(body),
        **_timed(report["timings"], report["counts"], body["outcome"]["kind"]),
        **_remembered(report),
        **_planned(body.get("plan") or {}),
        **_counted(report, losses),
    }
    return Row(
        values=values,
        settings=dict(spec["settings"]),
        started_utc=_text(body.get("started_utc")) or "",
        losses=np.array(losses),
        reference_losses=np.array(_floats(report["match"]["reference_losses"])),
        input_hash=_text(report["match"]["input_hash"]),
        precision=str(spec["workload"].get("precision") or "float32"),
        series=_series(report["timings"]) if spec["protocol"]["interleave"] else None,
        timeline=_timeline(body.get("plan") or {}),
        buffers=_buffers(body.get("plan") or {}),
        chip=_chip(spec["device"].get("sheet") or {}),
    )


def _asked(spec: dict[str, Any]) -> dict[str, Any]:
    framework, workload = spec["framework"], spec["workload"]
    return {
        "trial_id": str(spec["trial_id"]),
        "condition_id": str(spec["condition_id"]),
        "block": _place(spec, "block"),
        "order": _place(spec, "order"),
        "seed": _integer(spec["seed"], least=-_INT64_MAX),
        "evidence": Evidence(spec["evidence"]).value,
        "framework": _text(framework["name"]),
        "compile": _text(framework["compile"]),
        "device": _text(spec["device"]["kind"]),
        "chip": _text(spec["device"]["chip"]),
        "allocation": _text(spec["allocation"]["mode"]),
        "workload": _text(workload["name"]),
        "batch_size": _integer(workload["batch_size"]),
        "dtype": _text(workload["dtype"]),
        "search": _text(spec.get("search")),
        **_shared(spec.get("tenancy") or {}),
    }


def _shared(tenancy: dict[str, Any]) -> dict[str, Any]:
    """Whom the trial shared its device with; records from before there was co-location are of solo trials."""
    return {
        "colocation": _text(tenancy.get("colocation")) or SOLO,
        "colocation_tenant": _integer(tenancy.get("tenant")),
        "_tenancy": _text(tenancy.get("group_id")),
        "_tenants": _integer(tenancy.get("tenants")),
    }


def _ended(body: dict[str, Any]) -> dict[str, Any]:
    outcome = body["outcome"]
    if outcome["kind"] not in _OUTCOMES:
        raise RecordError(f"outcome {outcome['kind']!r}, which is none of {', '.join(sorted(_OUTCOMES))}")
    return {
        "outcome": outcome["kind"],
        "phase": _text(outcome["phase"]),
        "reason": _text(outcome["reason"]) or None,
        "outcome_text": _text(outcome["text"]) or None,
        "session_id": _text(body["session_id"]),
        "provenance_hash": _text(body["provenance_hash"]) or "",
        "start": _text(body["start"]),
        "elapsed_seconds": _duration(body, "elapsed_seconds"),
        "bytes_asked": _integer(outcome["bytes_asked"]),
        "bytes_available": _integer(outcome["bytes_available"]),
    }


def _timed(timings: dict[str, Any], counts: dict[str, Any], outcome: str) -> dict[str, Any]:
    """Times. `step_seconds` is given for ok trials only: a survivor's half measurement is no value to average."""
    summary = windows.summarise(_windows(timings["window_seconds"]))
    steps = _integer(timings["steps_per_window"])
    step = None
    if outcome == OutcomeKind.OK and summary.median_seconds and steps:
        step = summary.median_seconds / steps
    examples = _integer(counts["examples_per_step"])
    return {
        "step_seconds": step,
        "examples_per_second": examples / step if step and examples else None,
        "compile_seconds": _duration(timings, "compile_seconds"),
        "first_step_seconds": _duration(timings, "first_step_seconds"),
        "compile_method": _text(timings["compile_method"]),
        "trace_seconds": _duration(timings, "trace_seconds"),
        "lower_seconds": _duration(timings, "lower_seconds"),
        "retrace_seconds": _total(timings.get("retrace_seconds") or []),
        "import_seconds": _duration(timings, "import_seconds"),
        "steps_per_window": steps,
        "windows": len(timings["window_seconds"]) or None,
        "window_seconds_median": summary.median_seconds,
        "window_lag1_correlation": summary.lag1,
        "mild_outlier_windows": summary.mild,
        "severe_outlier_windows": summary.severe,
        "steady": _flag(timings["steady"]),
    }


_QUANTITIES = (
    "host_baseline",
    "host_peak",
    "device_live_peak",
    "device_pool_peak",
    "process_peak",
    "host_steady_baseline",
    "host_steady_peak",
    "retrace_caches",
    "device_memory",
    "device_total_used",
    "device_largest_free_block",
    "device_fragmented_free",
)


def _remembered(report: dict[str, Any]) -> dict[str, Any]:
    memory, allocation = report["memory"], report["allocation"]
    values = {f"{name}_bytes": _integer((memory.get(name) or {}).get("value")) for name in _QUANTITIES}
    baseline, peak = values["host_baseline_bytes"], values["host_peak_bytes"]
    return {
        **values,
        "host_peak_above_baseline_bytes": None if baseline is None or peak is None else peak - baseline,
        "allocation_effective": _text(allocation["effective"]),
        "device_allocator": _text(allocation["device_allocator"]),
        "host_allocator": _text(allocation["host_allocator"]),
    }


_PLAN_BYTES = ("argument", "output", "alias", "temp", "code", "peak")

_PLAN_BUFFERS = ("argument_buffers", "output_buffers", "aliased_outputs")

_PLAN_TEXTS = ("flops_source", "predicted_bound", "bridge", "target", "compiler", "module_hash")


def _planned(plan: dict[str, Any]) -> dict[str, Any]:
    return {
        **{f"planned_{name}_bytes": _integer(plan.get(f"{name}_bytes")) for name in _PLAN_BYTES},
        "planned_flops": _float(plan.get("flops")),
        "planned_bytes_accessed": _float(plan.get("bytes_accessed")),
        "predicted_step_seconds": _float(plan.get("predicted_step_seconds")),
        "usable_bytes": _integer(plan.get("usable_bytes")),
        "fits": _flag(plan.get("fits")),
        "planned_matrix_flops": _integer(plan.get("matrix_flops")),
        "planned_lowered_flops": _float(plan.get("lowered_flops")),
        "planned_margin_bytes": _integer(plan.get("margin_bytes"), least=-_INT64_MAX),
        **{name: _text(plan.get(name)) or None for name in _PLAN_TEXTS},
        "plan_cached": _flag(plan.get("cached")),
        "plan_compile_seconds": _float(plan.get("compile_seconds")),
    }


def _timeline(plan: dict[str, Any]) -> np.ndarray | None:
    points = plan.get("live_bytes")
    return None if points is None else np.array(list(map(_integer, points)), dtype=np.int64)


def _buffers(plan: dict[str, Any]) -> PlannedBuffers | None:
    arguments, outputs, aliased = (plan.get(name) for name in _PLAN_BUFFERS)
    temp = _integer(plan.get("temp_bytes"))
    if arguments is None or outputs is None or aliased is None or temp is None:
        return None
    return PlannedBuffers(
        arguments=tuple(map(int, arguments)),
        outputs=tuple(map(int, outputs)),
        aliased=frozenset(map(int, aliased)),
        temp_bytes=temp,
        code_bytes=_integer(plan.get("code_bytes")) or 0,
    )


def _chip(sheet: dict[str, Any]) -> Chip | None:
    """The GPU of a data sheet; None for a TPU, and without a sheet."""
    capability = (sheet.get("gpu_target") or {}).get("compute_capability")
    if sheet.get("platform") != "cuda" or capability is None:
        return None
    return Chip(int(sheet["memory_bytes"]), float(capability))


def _counted(report: dict[str, Any], losses: list[float]) -> dict[str, Any]:
    counts, counters, versions = report["counts"], report["counters"], report["versions"]
    framework = next((key for name, key in VERSION_KEYS.items() if key in versions), None)
    steps = counters.get("steps_measured") or _steps_measured(report["timings"])
    return {
        "framework_version": _text(versions.get("framework") or versions.get(framework or "")),
        "own_flops": _integer(counts["own_flops"]),
        "own_matrix_flops": _integer(counts.get("own_matrix_flops")),
        "traced_matrix_flops": _integer(counts.get("traced_matrix_flops")),
        "parameters": _integer(counts["parameters"]),
        "traces": _integer(counts["traces"]),
        "loss_first": losses[0] if losses else None,
        "loss_last": _float(report["match"]["loss_last"]),
        "loss_finite": all(map(math.isfinite, losses)) if losses else None,
        "minor_faults_per_step": _per_step(counters, ("minor_faults",), steps),
        "system_seconds_per_step": _per_step(counters, ("system_seconds", "system_cpu_seconds"), steps),
        "overlapped_windows": _integer(counters.get("overlapped_windows")),
        "warnings": "; ".join(map(str, report["warnings"])) or None,
    }


def _steps_measured(timings: dict[str, Any]) -> int:
    return (timings["steps_per_window"] or 0) * len(timings["window_seconds"])


def _per_step(counters: dict[str, Any], names: tuple[str, ...], steps: float) -> float | None:
    found = next((counters[name] for name in names if counters.get(name) is not None), None)
    return float(found) / float(steps) if found is not None and steps else None


def _series(timings: dict[str, Any]) -> np.ndarray | None:
    """Start and seconds a step of every window, shape (2, windows); None unless every window has both, all positive."""
    starts, seconds, steps = timings["window_start_seconds"], timings["window_seconds"], timings["steps_per_window"]
    if not steps or not seconds or len(starts) != len(seconds):
        return None
    series = np.array([_floats(starts), _floats(seconds)])
    series[1] /= steps
    return series if np.isfinite(series).all() and (series[1] > 0).all() else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _float(value: Any) -> float | None:
    return None if value is None else float(value)


def _floats(values: list[Any]) -> list[float]:
    return list(map(float, values))


def _total(values: list[Any]) -> float | None:
    """The sum; None where there is nothing to add."""
    return math.fsum(_floats(values)) if values else None


def _integer(value: Any, least: int = 0) -> int | None:
    """None, or the integer; a whole float is one too. Fewer than none, or more than 64 bits hold, is an error."""
    if value is None:
        return None
    number = int(value)
    if number != value or not least <= number <= _INT64_MAX:
        raise ValueError(f"{value!r} is no 64-bit integer from {least} on")
    return number


def _flag(value: Any) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise ValueError(f"{value!r} is neither true nor false")
    return value


def _place(spec: dict[str, Any], name: str) -> int:
    """A block's or a trial's place in the design, without which it cannot be paired."""
    place = _integer(spec[name])
    if place is None or place > _MOST_PLACES:
        raise ValueError(f"{name} {place!r} is no place in a design")
    return place


def _duration(values: dict[str, Any], name: str) -> float | None:
    """Seconds; None where there is no number. What no clock shows is an error: the record is not to be trusted."""
    seconds = _float(values[name])
    if seconds is None or not math.isfinite(seconds):
        return None
    if not 0 <= seconds <= _LONGEST_SECONDS:
        raise ValueError(f"{name} {seconds:g}, which no clock shows")
    return seconds


def _windows(values: list[Any]) -> list[float]:
    """Seconds of every window; those that are no number stay in. A window takes a clock's tick at least."""
    seconds = _floats(values)
    for number, one in enumerate(seconds):
        if math.isfinite(one) and not _TICK_SECONDS <= one <= _LONGEST_SECONDS:
            raise ValueError(f"window {number} of {one:g} s, which no clock shows")
    return seconds
