"""Throughput of every launch, by condition."""

from __future__ import annotations

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
    launches.draw_points(axis, values, launches.frameworks(rows))
    intervals = rows[[f"examples_per_second_{name}" for name in ("harmonic_mean", "low", "high")]]
    reaching = launches.draw_means(axis, intervals, values, "throughput (examples/s)")
    for row, condition in enumerate(records(rows)):
        launches.say_outcomes(axis, row, condition)
    note = "Points: launches. Diamond: harmonic mean with the 95 % interval of the mean step time."
    style.footnote(axis, note + reaching + cut)
    return figure
