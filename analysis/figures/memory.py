"""Measured memory by condition: the process on the host, and live bytes on the device, in panels of their own."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables
from analysis.words import MIB

QUESTION = "How much memory does it take at its peak?"
TABLE = "conditions"
COLUMNS = ("host_peak_above_baseline_median_bytes",)
ORDER = 40

PANELS = {
    "host_peak_above_baseline_bytes": "host peak above baseline (MiB)",
    "device_live_peak_bytes": "live bytes on the device (MiB)",
}


def draw(tables: Tables) -> Figure:
    """One row a condition, one panel a quantity: median over launches as a bar, launches as points, in MiB."""
    rows, cut = launches.shown_conditions(tables.conditions, "host_peak_above_baseline_median_bytes")
    figure, axes = style.row_figure(launches.row_names(rows), QUESTION, panels=len(PANELS), width=7.0)
    for axis, (column, label) in zip(axes, PANELS.items(), strict=True):
        _draw_panel(axis, rows, tables.trials, column, label)
    for row, condition in enumerate(records(rows)):
        launches.say_outcomes(axes[-1], row, condition, interval=False)
    style.footnote(axes[0], "Bars: median over launches. Baseline: after import, before the workload." + cut)
    return figure


def _draw_panel(axis: Axes, rows: pd.DataFrame, trials: pd.DataFrame, column: str, label: str) -> None:
    values = launches.values_by_row(rows, trials, column, 1 / MIB)
    medians = rows[column.replace("_bytes", "_median_bytes")].to_numpy(float) / MIB
    names = launches.frameworks(rows)
    style.value_axis(axis, np.concatenate([medians, *values]), label, zero=True)
    for row, median in enumerate(medians):
        if np.isfinite(median):
            axis.barh(row, median, height=0.55, color=style.colour(names[row]), alpha=0.35, linewidth=0)
        else:
            axis.text(0.02, row, "not measured", transform=axis.get_yaxis_transform(), va="center", color=style.FAINT)
    launches.draw_points(axis, values, names)
