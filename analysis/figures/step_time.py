"""Step time of every launch, by condition."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables

QUESTION = "How long does one step take?"
TABLE = "conditions"
COLUMNS = ("step_seconds_mean",)
ORDER = 20

MS = 1e3


def draw(tables: Tables) -> Figure:
    """One row a condition: launches as points, arithmetic mean and 95 % t interval over launches, in ms."""
    rows, cut = launches.shown_conditions(tables.conditions, "step_seconds_mean")
    values = launches.values_by_row(rows, tables.trials, "step_seconds")
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    style.value_axis(axis, np.concatenate(values) * MS, "step time (ms)", include=list(rows["step_seconds_high"] * MS))
    launches.draw_points(axis, values, launches.frameworks(rows), MS)
    left = axis.get_xlim()[0]
    for row, condition in enumerate(records(rows)):
        if condition["launches_count"]:
            mean, low, high = (condition[f"step_seconds_{name}"] * MS for name in ("mean", "low", "high"))
            launches.draw_interval(axis, row, mean, low, high, left)
        launches.say_outcomes(axis, row, condition)
    style.footnote(axis, "Points: launches (median window). Diamond: arithmetic mean with its 95 % t interval." + cut)
    return figure
