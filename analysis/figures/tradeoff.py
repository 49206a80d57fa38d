"""Memory against throughput: what each condition pays for its speed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.tables import Tables
from analysis.words import MIB

QUESTION = "What does throughput cost in memory?"
TABLE = "conditions"
COLUMNS = ("examples_per_second_harmonic_mean", "host_peak_above_baseline_median_bytes")
ORDER = 44

#: What is drawn upwards: the first that any condition has. A driver's count tells more than the host's share.
QUANTITIES = {
    "process_peak_median_bytes": "device memory by the driver's count (MiB)",
    "host_peak_above_baseline_median_bytes": "host peak above baseline (MiB)",
}
#: From one name to the next.
NAME_INCHES = 0.165

RATE = "examples_per_second_harmonic_mean"


def draw(tables: Tables) -> Figure:
    """One point a condition: median memory against the harmonic mean of its launches; names in the margin."""
    column = next(name for name in QUANTITIES if tables.conditions[name].notna().any())
    complete = tables.conditions[tables.conditions[[RATE, column]].notna().all(axis=1)]
    rows, cut = launches.shown_conditions(complete, RATE)
    names = [style.wrapped(name, lines=1) for name in launches.row_names(rows)]
    figure, axis = style.plain_figure(QUESTION, width=5.2, height=max(3.2, 1.1 * NAME_INCHES * len(names)))
    data = pd.DataFrame(
        {
            "rate": rows[RATE].to_numpy(float),
            "memory": rows[column].to_numpy(float) / MIB,
            "framework": launches.frameworks(rows),
        }
    )
    kinds = sorted(set(data["framework"]))
    style.value_axis(axis, data["rate"], "throughput (examples/s)")
    style.value_axis(axis, data["memory"], QUANTITIES[column], upward=True)
    sns.scatterplot(
        data=data,
        x="rate",
        y="memory",
        hue="framework",
        style="framework",
        hue_order=kinds,
        palette={kind: style.colour(kind) for kind in kinds},
        markers={kind: style.marker(kind) for kind in kinds},
        s=46,
        linewidth=0,
        zorder=3,
        ax=axis,
    )
    style.legend_above(axis)
    _name(axis, data, names)
    absent = len(tables.conditions) - len(complete)
    lacking = f" {absent} without both values are left out." if absent else ""
    style.footnote(axis, "Right and down is better. Harmonic mean of throughput, median of memory." + lacking + cut)
    return figure


def _name(axis: Axes, data: pd.DataFrame, names: list[str]) -> None:
    """The names beside the axes, one below the other in the points' order of height, each led to its point."""
    heights = axis.transData.transform(data[["rate", "memory"]].to_numpy())[:, 1]
    bottom, top = axis.transAxes.transform([(0, 0), (0, 1)])[:, 1]
    order = np.argsort(heights, kind="stable")
    apart = NAME_INCHES * axis.figure.dpi / (top - bottom)
    places = _spread((heights[order] - bottom) / (top - bottom), apart)
    for place, row in zip(places, order, strict=True):
        axis.annotate(
            names[row],
            (data["rate"].iloc[row], data["memory"].iloc[row]),
            xytext=(1.05, place),
            textcoords="axes fraction",
            va="center",
            fontsize=8,
            color=style.INK,
            arrowprops={"arrowstyle": "-", "color": style.BAND, "linewidth": 0.7, "shrinkB": 4, "relpos": (0, 0.5)},
            zorder=2,
        )


def _spread(heights: np.ndarray, apart: float) -> np.ndarray:
    """Ascending heights (fractions of the axes), moved as little as a pass up and a pass down need to be `apart`."""
    places = heights.copy()
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + apart)
    ceiling = 1.0
    for index in reversed(range(len(places))):
        places[index] = min(places[index], ceiling)
        ceiling = places[index] - apart
    return places
