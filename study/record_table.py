"""The record of one trial as a short table, for a run of a single condition."""

from __future__ import annotations

import statistics

from rich.console import Console
from rich.table import Table

from runners.records import Evidence, OutcomeKind, Plan, Quantity, TrialRecord

MEBIBYTE = 2**20


def show(record: TrialRecord, console: Console) -> None:
    """Print what was asked, how it ended and what was measured; "not measured" where there is no figure."""
    table = Table(title=f"trial {record.spec.trial_id}", title_justify="left", show_header=False)
    table.add_column("what", no_wrap=True)
    table.add_column("value", overflow="fold")
    for what, value in rows(record):
        table.add_row(what, value)
    console.print(table, markup=False)


def rows(record: TrialRecord) -> list[tuple[str, str]]:
    """(what, value) pairs, in the order of a trial's life."""
    spec, report = record.spec, record.report
    version = report.versions.get("framework", "")
    chip = "" if spec.device.chip is None else f" {spec.device.chip}"
    asked = [
        ("framework", f"{spec.framework.name} {version}, compile {spec.framework.compile}"),
        ("device", f"{spec.device.kind}{chip}, {spec.evidence}"),
        ("allocation", f"{spec.allocation.mode}, effective {report.allocation.effective or 'not measured'}"),
        (
            "workload",
            f"{spec.workload.name} {spec.workload.size}, batch {spec.workload.batch_size} {spec.workload.dtype}",
        ),
        ("outcome", _outcome(record)),
    ]
    figures = _planned(record) if spec.evidence == Evidence.COMPILED else _measured(record)
    return asked + figures + [("warning", text) for text in report.warnings]


def step_seconds(record: TrialRecord) -> float | None:
    """The trial's value: the median window divided by its steps, in seconds; None without windows."""
    timings = record.report.timings
    if not timings.window_seconds or not timings.steps_per_window:
        return None
    return statistics.median(timings.window_seconds) / timings.steps_per_window


def _measured(record: TrialRecord) -> list[tuple[str, str]]:
    timings, counts, memory = record.report.timings, record.report.counts, record.report.memory
    step = step_seconds(record) if record.outcome.kind is OutcomeKind.OK else None
    examples = None if step is None or counts.examples_per_step is None else counts.examples_per_step / step
    baseline, peak = (memory.get(key, Quantity()).value for key in ("host_baseline", "host_peak"))
    above = None if baseline is None or peak is None else peak - baseline
    return [
        ("step time", _figure(step, 1e3, "ms")),
        ("throughput", _figure(examples, 1, "examples/s")),
        ("compile time", _figure(timings.compile_seconds, 1, "s")),
        ("first step, with compiling", _figure(timings.first_step_seconds, 1, "s")),
        ("host peak above baseline", _figure(above, 1 / MEBIBYTE, "MiB")),
        ("device live peak", _figure(memory.get("device_live_peak", Quantity()).value, 1 / MEBIBYTE, "MiB")),
        ("first and last loss", _losses(record)),
    ]


def _planned(record: TrialRecord) -> list[tuple[str, str]]:
    """The compiler's plan; the words say of every figure that it was not measured."""
    plan = record.plan or Plan()
    parts = {"arguments": plan.argument_bytes, "results": plan.output_bytes, "temporaries": plan.temp_bytes}
    margin = _figure(plan.margin_bytes, 1 / MEBIBYTE, "MiB", "not known")
    fits = {True: f"yes, {margin} left", False: f"no, {margin}", None: "not known"}[plan.fits]
    return [
        ("compiled for, by", f"{plan.target or 'nothing'}, {plan.compiler}{', from the cache' if plan.cached else ''}"),
        ("planned peak", _figure(plan.peak_bytes, 1 / MEBIBYTE, "MiB", "no plan")),
        *((f"planned {name}", _figure(value, 1 / MEBIBYTE, "MiB", "no plan")) for name, value in parts.items()),
        ("fits", fits),
        ("predicted step time", _figure(plan.predicted_step_seconds, 1e3, "ms, a bound by the data sheet", "no plan")),
    ]


def _outcome(record: TrialRecord) -> str:
    outcome = record.outcome
    where = f", in the phase {outcome.phase}" if outcome.phase and outcome.text else ""
    return f"{outcome.kind}{where}" + (f"\n{outcome.text}" if outcome.text else "")


def _losses(record: TrialRecord) -> str:
    match = record.report.match
    if not match.losses or match.loss_last is None:
        return "not measured"
    return f"{match.losses[0]:.6g}, {match.loss_last:.6g}"


def _figure(value: float | None, scale: float, unit: str, missing: str = "not measured") -> str:
    if value is None:
        return missing
    shown = value * scale
    return f"{shown:,.0f} {unit}" if abs(shown) >= 1000 else f"{shown:.4g} {unit}"
