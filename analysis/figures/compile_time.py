"""What happens before the first result: tracing, lowering, compiling, the first step."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.tables import Tables

QUESTION = "How long until the first step's result?"
TABLE = "conditions"
COLUMNS = ("compile_seconds_mean",)
ORDER = 50

#: Part → colour. The order is that in time; compile is what compile_seconds holds beyond the two parts before it.
PARTS = {"trace": "#7FB3D5", "lower": "#F5B041", "compile": "#7D6608"}


def draw(tables: Tables) -> Figure:
    """One row a condition: means over launches of the parts of compilation, and of the time to the first step, in s."""
    measured = tables.conditions[tables.conditions["compile_seconds_mean"].notna()]
    rows, cut = launches.shown_conditions(measured, "compile_seconds_mean")
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    parts = split(rows)
    totals = pd.concat([parts.sum(axis=1), rows["first_step_seconds_mean"]])
    style.value_axis(axis, totals, "seconds", zero=True)
    left = np.zeros(len(rows))
    for name, colour in PARTS.items():
        axis.barh(range(len(rows)), parts[name], left=left, height=0.55, color=colour, linewidth=0, label=name)
        left = left + parts[name].to_numpy()
    first = rows["first_step_seconds_mean"].to_numpy(float)
    axis.plot(
        first, range(len(rows)), linestyle="none", marker="|", markersize=14, color=style.INK, label="first step done"
    )
    for row, n in enumerate(rows["launches_count"]):
        style.beside(axis, row, f"n = {n}")
    style.legend_above(axis)
    style.footnote(axis, "Means over launches. Parts that a framework does not tell apart are in compile." + cut)
    return figure


def split(rows: pd.DataFrame) -> pd.DataFrame:
    """trace, lower and the rest of compile_seconds, in s, never below 0; a part not told apart counts into the rest."""
    trace = rows["trace_seconds_mean"].fillna(0.0)
    lower = rows["lower_seconds_mean"].fillna(0.0)
    rest = (rows["compile_seconds_mean"] - trace - lower).clip(lower=0.0)
    return pd.DataFrame({"trace": trace, "lower": lower, "compile": rest})
