"""Measured memory as a waterfall: from the live arrays through the pool to all that the process holds.

What was imported before the workload is said beside each row: as a bar it would dwarf the rest.
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
    "pool beyond them": "#56B4E9",
    "rest of the process": "#E69F00",
    "context and rest": "#CC79A7",
}

PANELS = ("host process above its baseline, at its peak (MiB)", "device, by the driver's count (MiB)")


def draw(tables: Tables) -> Figure:
    """One row a condition: the host process, and beside it the device where that has memory of its own; in MiB."""
    measured = tables.conditions[tables.conditions["host_peak_above_baseline_median_bytes"].notna()]
    rows, cut = launches.shown_conditions(measured, "host_peak_above_baseline_median_bytes")
    stacks = [(host_parts(row), device_parts(row)) for row in records(rows)]
    apart = any(device for _, device in stacks)
    figure, axes = style.row_figure(launches.row_names(rows), QUESTION, panels=1 + apart, width=7.0 if apart else 6.0)
    for number, axis in enumerate(axes):
        _draw_panel(axis, [pair[number] for pair in stacks], PANELS[number])
    for row, condition in enumerate(records(rows)):
        baseline = words.mebibytes(condition["host_baseline_median_bytes"])
        style.beside(axes[-1], row, f"n = {condition['launches_count']}, on {baseline} of imports")
    present = [part for part in PARTS if any(part in stack for pair in stacks for stack in pair)]
    style.legend_above(axes[0], [Patch(facecolor=PARTS[part], label=part) for part in present])
    absent = len(tables.conditions) - len(measured)
    lacking = f" {absent} conditions without a measured peak are left out." if absent else ""
    style.footnote(
        axes[0],
        "Medians over launches; a part is the gap between two counters, and peaks need not coincide. On a CPU live "
        "arrays are a part of the process; a framework that does not count them has them in the rest." + lacking + cut,
    )
    return figure


def host_parts(row: dict[str, Any]) -> dict[str, float]:
    """Bytes of the host process above its baseline, by part, in order. Arrays lie in it on a CPU only."""
    above = max(row["host_peak_above_baseline_median_bytes"], 0.0)
    arrays = _arrays(row, above) if row["device"] == "cpu" else {}
    return {**arrays, "rest of the process": above - sum(arrays.values())}


def device_parts(row: dict[str, Any]) -> dict[str, float]:
    """Bytes on a device of its own by part; empty on a CPU, and where nothing was counted."""
    driver = row["process_peak_median_bytes"]
    if row["device"] == "cpu":
        return {}
    arrays = _arrays(row, math.inf if math.isnan(driver) else driver)
    if math.isnan(driver):
        return arrays
    return {**arrays, "context and rest": max(driver - sum(arrays.values()), 0.0)}


def _arrays(row: dict[str, Any], most: float) -> dict[str, float]:
    """Live arrays and what the pool holds beyond them, as far as counted, together at most `most` bytes."""
    live, pool = row["device_live_peak_median_bytes"], row["device_pool_peak_median_bytes"]
    parts = {} if math.isnan(live) else {"live arrays": min(live, most)}
    if not math.isnan(pool):
        parts["pool beyond them"] = max(min(pool, most) - sum(parts.values()), 0.0)
    return parts


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
