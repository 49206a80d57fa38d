"""Measured memory as a waterfall: from the live arrays through the pool and the process to all that the device holds.

The compiler's plan of the same step, where the study has it, stands to the left in a panel of its own, hatched: it is a
prediction about one step, and on one axis with the counters it would read as one of them. What was imported before the
workload, and what others hold of a machine's memory, is said beside each row: as bars they would dwarf the rest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis import words
from analysis.conditions import KEY
from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables
from analysis.words import MIB

QUESTION = "Where does the memory go?"
TABLE = "conditions"
COLUMNS = ("host_peak_above_baseline_median_bytes",)
ORDER = 42

#: Part → colour, in the order in which they are stacked. A part is the gap between two counters.
PARTS = {
    "live arrays": "#0072B2",
    "fragmentation": "#009E73",
    "pool slack": "#56B4E9",
    "rest of the process": "#E69F00",
    "context": "#CC79A7",
    "other processes": "#BBBBBB",
}

PLANNED = "planned by the compiler, not measured (MiB)"
PANELS = ("host process above its baseline, at its peak (MiB)", "device, by the driver's count (MiB)")


def draw(tables: Tables) -> Figure:
    """One row a condition: its plan if there is one, the host process, and the device where that has its own memory."""
    measured = tables.conditions[tables.conditions["host_peak_above_baseline_median_bytes"].notna()]
    rows, cut = launches.shown_conditions(measured, "host_peak_above_baseline_median_bytes")
    stacks = [(host_parts(row), device_parts(row)) for row in records(rows)]
    planned = planned_peaks(rows, tables.waterfall)
    ahead, apart = int(np.isfinite(planned).any()), any(device for _, device in stacks)
    panels = ahead + 1 + apart
    figure, axes = style.row_figure(launches.row_names(rows), QUESTION, panels, width=6.0 + 2.5 * (panels - 1))
    for axis in axes[:ahead]:
        _draw_plan(axis, planned)
    for number, axis in enumerate(axes[ahead:]):
        _draw_panel(axis, [pair[number] for pair in stacks], PANELS[number])
    for row, condition in enumerate(records(rows)):
        style.beside(axes[-1], row, _beside(condition))
    present = [part for part in PARTS if any(part in stack for pair in stacks for stack in pair)]
    handles = [Patch(facecolor=PARTS[part], label=part) for part in present]
    style.legend_above(axes[0], [*handles, *[Patch(**HATCHED, label="planned")][:ahead]])
    absent = len(tables.conditions) - len(measured)
    lacking = f" {absent} conditions without a measured peak are left out." if absent else ""
    style.footnote(
        axes[0],
        "Medians over launches; a part is the gap between two counters, and peaks need not coincide. Fragmentation is "
        "free memory of the pool outside its largest free block; a pool whose free blocks are not told has it in its "
        "slack. On a CPU live arrays are a part of the process; a framework that does not count them has them in the "
        "rest." + lacking + cut,
    )
    return figure


#: How what was never measured is drawn.
HATCHED: dict[str, Any] = {"facecolor": "white", "edgecolor": style.FAINT, "hatch": "////", "linewidth": 0.8}


def planned_peaks(rows: pd.DataFrame, waterfall: pd.DataFrame) -> np.ndarray:
    """The planned peak of every row's step in bytes, float64 of shape (rows,), NaN where there is none."""
    first = waterfall.groupby(list(KEY), sort=False, dropna=False)["planned_peak_bytes"].first()
    keys = zip(*(rows[name] for name in KEY), strict=True)
    return np.array([math.nan if pd.isna(peak := first.get(key)) else float(peak) for key in keys])


def host_parts(row: dict[str, Any]) -> dict[str, float]:
    """Bytes of the host process above its baseline, by part, in order. Arrays lie in it on a CPU only."""
    above = max(row["host_peak_above_baseline_median_bytes"], 0.0)
    arrays = _arrays(row, above) if row["device"] == "cpu" else {}
    return {**arrays, "rest of the process": above - sum(arrays.values())}


def device_parts(row: dict[str, Any]) -> dict[str, float]:
    """Bytes on a device of its own by part; empty on a CPU, and where nothing was counted."""
    driver, whole = row["process_peak_median_bytes"], row["device_total_used_median_bytes"]
    if row["device"] == "cpu":
        return {}
    arrays = _arrays(row, math.inf if math.isnan(driver) else driver)
    if math.isnan(driver):
        return arrays
    parts = {**arrays, "context": max(driver - sum(arrays.values()), 0.0)}
    return parts if math.isnan(whole) else {**parts, "other processes": max(whole - driver, 0.0)}


def _arrays(row: dict[str, Any], most: float) -> dict[str, float]:
    """Live arrays and what the pool holds beyond them, as far as counted, together at most `most` bytes."""
    live, pool = row["device_live_peak_median_bytes"], row["device_pool_peak_median_bytes"]
    fragmented = row["device_fragmented_free_median_bytes"]
    parts = {} if math.isnan(live) else {"live arrays": min(live, most)}
    if math.isnan(pool):
        return parts
    slack = max(min(pool, most) - sum(parts.values()), 0.0)
    if not math.isnan(fragmented):
        parts["fragmentation"] = min(fragmented, slack)
        slack -= parts["fragmentation"]
    return {**parts, "pool slack": slack}


def _beside(condition: dict[str, Any]) -> str:
    baseline = words.mebibytes(condition["host_baseline_median_bytes"])
    text = f"n = {condition['launches_count']}, on {baseline} of imports"
    whole = condition["device_total_used_median_bytes"]
    if condition["device"] != "cpu" or math.isnan(whole):
        return text
    own = condition["host_baseline_median_bytes"] + condition["host_peak_above_baseline_median_bytes"]
    # the machine's count leaves out mapped files, the process's does not: below zero it says nothing of others
    return f"{text}; others hold {words.mebibytes(whole - own)} of the machine" if whole >= own else text


def _draw_plan(axis: Axes, planned: np.ndarray) -> None:
    style.value_axis(axis, planned / MIB, PLANNED, zero=True)
    axis.barh(range(len(planned)), np.nan_to_num(planned) / MIB, height=0.55, **HATCHED)
    for row in np.flatnonzero(np.isnan(planned)):
        axis.text(0.02, float(row), "no plan", transform=axis.get_yaxis_transform(), va="center", color=style.FAINT)


def _draw_panel(axis: Axes, stacks: list[dict[str, float]], label: str) -> None:
    totals = np.array([sum(stack.values()) for stack in stacks]) / MIB
    style.value_axis(axis, totals, label, zero=True)
    table = pd.DataFrame(stacks, columns=list(PARTS)).fillna(0.0) / MIB
    left = np.zeros(len(table))
    for part, colour in PARTS.items():
        axis.barh(range(len(table)), table[part], left=left, height=0.55, color=colour, linewidth=0)
        left = left + table[part].to_numpy()
    for row, stack in enumerate(stacks):
        if not stack:
            axis.text(0.02, row, "not measured", transform=axis.get_yaxis_transform(), va="center", color=style.FAINT)
