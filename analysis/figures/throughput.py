"""Throughput of every launch, by condition."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables

QUESTION = "How many examples a second are processed?"
TABLE = "conditions"
COLUMNS = ("examples_per_second_harmonic_mean",)
ORDER = 30


def draw(tables: Tables) -> Figure:
    """One row a condition: launches as points, harmonic mean, and the interval that follows from the step time's."""
    rows, cut = launches.shown_conditions(tables.conditions, "examples_per_second_harmonic_mean")
    values = launches.values_by_row(rows, tables.trials, "examples_per_second")
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    shown = np.concatenate(values)
    style.value_axis(axis, shown, "throughput (examples/s)", include=list(rows["examples_per_second_low"]))
    launches.draw_points(axis, values, launches.frameworks(rows), 1.0)
    left = axis.get_xlim()[0]
    for row, condition in enumerate(records(rows)):
        mean, low, high = (condition[f"examples_per_second_{name}"] for name in ("harmonic_mean", "low", "high"))
        if np.isfinite(mean):
            launches.draw_interval(axis, row, mean, low, high, left)
        launches.say_outcomes(axis, row, condition)
    style.footnote(axis, "Points: launches. Diamond: harmonic mean with the 95 % interval of the mean step time." + cut)
    return figure
