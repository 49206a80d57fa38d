"""One framework's plan against another's, in percent, cell by cell. Nothing was run."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables

QUESTION = "Planned, not measured: how do the frameworks' plans differ?"
TABLE = "plan_differences"
COLUMNS = ("planned_peak_bytes",)
ORDER = 140
EVIDENCE = "compiled"

PANELS = {"planned_peak_bytes": "planned peak (%)", "planned_temp_bytes": "temporaries (%)"}


def draw(tables: Tables) -> Figure:
    """One row a pair, one panel a quantity: how much more the first plans than the second."""
    rows = tables.plan_differences.head(style.MOST_ROWS)
    names = [f"{row['level_a']} against {row['level_b']}{_cell(row)}" for row in records(rows)]
    figure, axes = style.row_figure(launches.row_names(rows, names), QUESTION, panels=len(PANELS), width=7.0)
    for axis, (column, label) in zip(axes, PANELS.items(), strict=True):
        percent = 100 * rows[column].to_numpy(float)
        style.value_axis(axis, percent, label, include=(0.0,))
        axis.axvline(0.0, color=style.INK, linewidth=1)
        axis.plot(percent, range(len(rows)), marker="D", color=style.INK, linestyle="none", markersize=5)
    for row, differs in enumerate((rows["match"] == False).fillna(False)):  # noqa: E712 - missing is neither
        if differs:
            style.beside(axes[-1], row, "✕ not matched", style.FAILURE)
    cut = style.left_out(len(rows), len(tables.plan_differences), "the first")
    style.footnote(axes[0], "Above 0: the first plans more." + cut)
    return figure


def _cell(row: dict[str, Any]) -> str:
    return f" · {row['cell']}" if row["cell"] else ""
