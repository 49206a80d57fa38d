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
SOURCES = (*STAGES.values(), HOST_PROCESS, "device_fragmented_free_bytes")
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
    rows = [
        {
            **{name: row[name] for name in KEY if name != "label"},
            "label": labels[row["condition_id"]],
            "planned_peak_bytes": peaks.get(row["condition_id"]),
            **_measured(row),
        }
        for row in records(measured[[*(name for name in KEY if name != "label"), *SOURCES]])
    ]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    table = table.astype({name: "Int64" for name in COLUMNS if name.endswith("_bytes")})
    return table[table[list(STAGES)].notna().any(axis=1)].reset_index(drop=True)


def gaps(
    live: int | None, pool: int | None, process: int | None, device: int | None, fragmented: int | None
) -> dict[str, int | None]:
    """What lies between the counters, in bytes; None where one of its two ends was not measured.

    fragmentation: free memory of the pool outside its largest block; pool slack: the rest of what the pool holds beyond
    live arrays; context: what the process holds beyond its pool (without one: beyond live arrays), which on a CPU is
    the interpreter and everything imported; other processes: what the device holds beyond this process.
    """
    slack = _beyond(pool, live)
    fragmentation = None if slack is None or fragmented is None else min(fragmented, slack)
    inner = live if pool is None else pool
    return {
        "fragmentation_bytes": fragmentation,
        "pool_slack_bytes": None if slack is None else slack - (fragmentation or 0),
        "context_bytes": _beyond(process, inner),
        "other_processes_bytes": _beyond(device, process),
    }


def _measured(row: dict[str, Any]) -> dict[str, int | None]:
    sources = {**STAGES, "process_bytes": HOST_PROCESS if row["device"] == "cpu" else STAGES["process_bytes"]}
    found = {name: _integer(row[column]) for name, column in sources.items()}
    live, pool, process, device = found.values()
    return {**found, **gaps(live, pool, process, device, _integer(row["device_fragmented_free_bytes"]))}


def _beyond(whole: int | None, part: int | None) -> int | None:
    return None if whole is None or part is None else max(whole - part, 0)


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


def _integer(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)
