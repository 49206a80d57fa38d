"""Step time of every launch, by condition."""

from __future__ import annotations

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
    values = launches.values_by_row(rows, tables.trials, "step_seconds", MS)
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    launches.draw_points(axis, values, launches.frameworks(rows))
    intervals = rows[["step_seconds_mean", "step_seconds_low", "step_seconds_high"]] * MS
    reaching = launches.draw_means(axis, intervals, values, "step time (ms)")
    for row, condition in enumerate(records(rows)):
        launches.say_outcomes(axis, row, condition)
    note = "Points: launches (median window). Diamond: arithmetic mean with its 95 % t interval."
    style.footnote(axis, note + reaching + cut)
    return figure
