"""What happens before the first result: importing, tracing, lowering, compiling, the first step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.tables import Tables

QUESTION = "Where does the time until the first result go?"
TABLE = "conditions"
COLUMNS = ("compile_seconds_mean",)
ORDER = 50

#: Part → colour. The order is that in time; compile is what compile_seconds holds beyond the two parts before it.
PARTS = {"import": "#BBBBBB", "trace": "#7FB3D5", "lower": "#F5B041", "compile": "#7D6608"}


def draw(tables: Tables) -> Figure:
    """One row a condition: means over launches of the parts of start-up and of the time to the first result, in s."""
    measured = tables.conditions[tables.conditions["compile_seconds_mean"].notna()]
    rows, cut = launches.shown_conditions(measured, "compile_seconds_mean")
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    parts = split(rows)
    first = (parts["import"] + rows["first_step_seconds_mean"]).to_numpy(float)
    totals = pd.concat([parts.sum(axis=1), pd.Series(first)])
    style.value_axis(axis, totals, "seconds", zero=True)
    left = np.zeros(len(rows))
    for name in parts.columns[(parts > 0.005 * parts.to_numpy().max()).any()]:
        colour = PARTS[name]
        axis.barh(range(len(rows)), parts[name], left=left, height=0.55, color=colour, linewidth=0, label=name)
        left = left + parts[name].to_numpy()
    axis.plot(
        first, range(len(rows)), linestyle="none", marker="|", markersize=14, color=style.INK, label="first result"
    )
    for row, n in enumerate(rows["launches_count"]):
        style.beside(axis, row, f"n = {n}")
    style.legend_above(axis)
    style.footnote(
        axis,
        "Means over launches. A launch forked from a process that had imported its framework has no import of its own. "
        "Parts that a framework does not tell apart are in compile; setting up and placing the inputs is not timed."
        + cut,
    )
    return figure


def split(rows: pd.DataFrame) -> pd.DataFrame:
    """import, trace, lower and the rest of compile_seconds, in s, never below 0.

    A part that is not told apart counts into the rest; an import that was not timed counts as none.
    """
    imported = rows["import_seconds_mean"].fillna(0.0)
    trace = rows["trace_seconds_mean"].fillna(0.0)
    lower = rows["lower_seconds_mean"].fillna(0.0)
    rest = (rows["compile_seconds_mean"] - trace - lower).clip(lower=0.0)
    return pd.DataFrame({"import": imported, "trace": trace, "lower": lower, "compile": rest})
