"""The slow-down of every tenant against the same condition alone."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import words
from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables

QUESTION = "What does it cost to share the device?"
TABLE = "tenants"
COLUMNS = ("time_ratio",)
ORDER = 80
SECTION = "sharing"


def draw(tables: Tables) -> Figure:
    """One row a tenant: step time over that alone with its 95 % interval; a bar at what an equal share would give."""
    rows, cut = _shown(tables.tenants)
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    shares = [float(count) for count in rows["tenants_count"]]
    ends = rows[["time_ratio", "time_ratio_low", "time_ratio_high"]].to_numpy(float).ravel()
    style.value_axis(axis, [*ends[np.isfinite(ends)], *shares], "step time ÷ step time alone", include=[1.0])
    axis.axvline(1, color=style.FAINT, linewidth=1, zorder=1)
    for number, (row, share) in enumerate(zip(records(rows), shares, strict=True)):
        axis.plot([share, share], [number - 0.3, number + 0.3], color=style.FAINT, linewidth=1, linestyle=":", zorder=2)
        _draw_tenant(axis, number, row)
    style.footnote(
        axis,
        "1: as fast as alone. Dotted: the number of tenants, what equal shares of one device would cost. Line: 95 % t "
        "interval over blocks in which every tenant ended ok." + cut,
    )
    return figure


def _shown(tenants: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    if len(tenants) <= style.MOST_ROWS:
        return tenants, ""
    order = tenants[tenants["time_ratio"].notna()].sort_values("time_ratio", kind="stable", ascending=False)
    shown = order.head(style.MOST_ROWS)
    return shown, style.left_out(len(shown), len(tenants), "the greatest slow-downs")


def _draw_tenant(axis: Axes, number: int, row: dict[str, Any]) -> None:
    colour = style.colour(row["framework"])
    if not row["blocks_count"]:
        place = axis.get_yaxis_transform()
        axis.plot([0.03], [number], marker="x", markersize=7, color=style.FAILURE, transform=place)
        style.beside(axis, number, row["note"].removeprefix("no slow-down: "), style.FAILURE)
        return
    if math.isfinite(row["time_ratio_low"]):
        ends = [row["time_ratio_low"], row["time_ratio_high"]]
        axis.plot(ends, [number, number], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
    marker = style.marker(row["framework"])
    axis.plot([row["time_ratio"]], [number], marker=marker, markersize=6, color=colour, zorder=5)
    style.beside(axis, number, f"{words.ratio(row['time_ratio'])}  {row['note']}")
