"""The memory waterfall of every measured trial: planned → live → pool → process → device, and what lies between.

The gaps are differences of counters of one trial. Peaks need not coincide, so a gap is never below 0 here: where a part
exceeds the whole that should hold it, the whole is taken for reached. What the compiler planned is in a column of its
own, from the compiled trial of the same step; nothing measured is computed from it.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.frames import records
from analysis.load import Journals

#: Counters of the waterfall, from the inside out, as columns of this table → of the trials table.
STAGES = {
    "live_bytes": "device_live_peak_bytes",
    "pool_bytes": "device_pool_peak_bytes",
    "process_bytes": "process_peak_bytes",
    "device_total_bytes": "device_total_used_bytes",
}
#: On a CPU the device's memory is the process's.
HOST_PROCESS = "host_peak_bytes"
GAPS = ("fragmentation_bytes", "pool_slack_bytes", "context_bytes", "other_processes_bytes")
KEY = ("provenance_hash", "condition_id", "trial_id", "block", "label", "device", "allocation", "outcome")
COLUMNS = (*KEY, "planned_peak_bytes", *STAGES, *GAPS)

#: Settings that change neither the step nor what it is compiled for, or that say where it ran.
NO_PART_OF_THE_PLAN = ("allocation", "evidence", "chip", "protocol", "framework.python", "device.cpus", "replicate")


def waterfall_table(
    measured: pd.DataFrame, planned: pd.DataFrame, journals: Journals, labels: dict[str, str]
) -> pd.DataFrame:
    """One row a measured trial that counted anything; bytes, missing where not measured.

    `planned_peak_bytes` is missing where no compiled trial has the same step, or several plan it differently.
    """
    plans = _plans(planned, journals)
    peaks = {name: plans.get(_step(settings)) for name, settings in journals.conditions.items()} if plans else {}
    table = measured[[name for name in KEY if name != "label"]].assign(
        label=[labels[one] for one in measured["condition_id"]],
        planned_peak_bytes=pd.array([peaks.get(one) for one in measured["condition_id"]], dtype="Int64"),
    )
    counters = _counters(measured)
    live, pool, process, device = counters.values()
    between = gaps(live, pool, process, device, measured["device_fragmented_free_bytes"])
    table = table.assign(**counters, **between)[list(COLUMNS)]
    return table[table[list(STAGES)].notna().any(axis=1)].reset_index(drop=True)


def gaps(
    live: pd.Series, pool: pd.Series, process: pd.Series, device: pd.Series, fragmented: pd.Series
) -> dict[str, pd.Series]:
    """What lies between the counters of every trial, in bytes (Int64); missing where one of two ends was not measured.

    fragmentation: free memory of the pool outside its largest block; pool slack: the rest of what the pool holds beyond
    live arrays; context: what the process holds beyond its pool (without one: beyond live arrays), which on a CPU is
    the interpreter and everything imported; other processes: what the device holds beyond this process.
    """
    slack = _beyond(pool, live)
    fragmentation = fragmented.where(fragmented <= slack, slack).where(fragmented.notna())
    return {
        "fragmentation_bytes": fragmentation,
        "pool_slack_bytes": slack - fragmentation.fillna(0),
        "context_bytes": _beyond(process, pool.fillna(live)),
        "other_processes_bytes": _beyond(device, process),
    }


def _counters(measured: pd.DataFrame) -> dict[str, pd.Series]:
    """The stages' counters; a process on a CPU is counted by the host."""
    found = {name: measured[column] for name, column in STAGES.items()}
    on_cpu = measured["device"] == "cpu"
    return {**found, "process_bytes": measured[HOST_PROCESS].where(on_cpu, found["process_bytes"])}


def _beyond(whole: pd.Series, part: pd.Series) -> pd.Series:
    return (whole - part).clip(lower=0)


def _plans(planned: pd.DataFrame, journals: Journals) -> dict[tuple[Any, ...], int]:
    """Step → its planned peak, where all compiled trials of the step agree."""
    found: dict[tuple[Any, ...], set[int]] = {}
    for row in records(planned[planned["planned_peak_bytes"].notna()]):
        step = _step(journals.conditions[row["condition_id"]])
        found.setdefault(step, set()).add(int(row["planned_peak_bytes"]))
    return {step: peaks.pop() for step, peaks in found.items() if len(peaks) == 1}


def _step(settings: Any) -> tuple[Any, ...]:
    """The settings that a plan depends on, as a key."""
    kept = {key: value for key, value in settings.items() if not _no_part(key)}
    return tuple(sorted((key, repr(value)) for key, value in kept.items()))


def _no_part(key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in NO_PART_OF_THE_PLAN)
