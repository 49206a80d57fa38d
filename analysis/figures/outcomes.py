"""How every trial ended: conditions against blocks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.conditions import KEY
from analysis.figures import launches, style
from analysis.figures.blocks import block_places
from analysis.tables import Tables

QUESTION = "How did the trials end?"
TABLE = "trials"
COLUMNS = ("outcome",)
ORDER = 70

#: More blocks than this are merged into as many columns, each showing the worst outcome in it.
MOST_COLUMNS = 40

KINDS = list(style.OUTCOME_COLOURS)
#: From harmless to serious: what a merged cell shows.
SEVERITY = ["not run", "ok", "not_applicable", "unavailable", "config", "invalid", "timeout", "oom", "crash"]


def draw(tables: Tables) -> Figure:
    """One row a condition, one column a block, the outcome as a colour; failures first where rows must be left out."""
    rows, cut = _shown(tables.conditions)
    grid = outcome_grid(tables.trials, rows)
    figure, (axis,) = style.row_figure(launches.row_names(rows), QUESTION)
    codes = grid.map(KINDS.index).to_numpy()
    sns.heatmap(
        codes,
        cmap=ListedColormap([style.OUTCOME_COLOURS[kind] for kind in KINDS]),
        vmin=-0.5,
        vmax=len(KINDS) - 0.5,
        linewidths=1 if codes.size < 2000 else 0,
        linecolor="white",
        cbar=False,
        xticklabels=False,
        yticklabels=False,
        ax=axis,
    )
    _ticks(axis, grid, launches.row_names(rows))
    present = [kind for kind in KINDS if (grid == kind).to_numpy().any()]
    patches = [Patch(facecolor=style.OUTCOME_COLOURS[kind], edgecolor="#AAAAAA", label=kind) for kind in present]
    style.legend_above(axis, patches)
    merged = " Several blocks share a column: the gravest outcome shows." if len(grid.columns) == MOST_COLUMNS else ""
    style.footnote(axis, "Every trial by its last attempt." + merged + cut)
    return figure


def outcome_grid(trials: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows as given, a column a block (or a range of blocks), the gravest outcome as text, `not run` where none is.

    A condition that could not be launched at all has one record for all blocks.
    """
    places = block_places(trials)
    columns = max(places.values()) + 1
    width = max(1, -(-columns // MOST_COLUMNS))
    grid = np.zeros((len(rows), -(-columns // width)), dtype=int)
    row_of = {key: row for row, key in enumerate(zip(*(rows[name] for name in KEY), strict=True))}
    needed = trials[[*KEY, "_folder", "block", "outcome", "start"]]
    for provenance, condition, folder, block, outcome, start in needed.itertuples(index=False, name=None):
        row = row_of.get((provenance, condition))
        if row is not None:
            cells = slice(None) if start == "not launched" else places[folder, block] // width
            grid[row, cells] = np.maximum(grid[row, cells], SEVERITY.index(outcome))
    return pd.DataFrame(np.array(SEVERITY, dtype=object)[grid])


def _shown(conditions: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    if len(conditions) <= style.MOST_ROWS:
        return conditions, ""
    share = conditions["ok_count"] / conditions["attempts_count"]
    shown = conditions.loc[share.sort_values(kind="stable").index[: style.MOST_ROWS]]
    return shown, style.left_out(len(shown), len(conditions), "those with most failures")


def _ticks(axis: Axes, grid: pd.DataFrame, names: list[str]) -> None:
    """heatmap centres its cells on halves: row and column names go there."""
    rows, columns = grid.shape
    axis.set_yticks(np.arange(rows) + 0.5, [style.wrapped(name) for name in names], rotation=0)
    step = max(1, columns // 10)
    axis.set_xticks(np.arange(0, columns, step) + 0.5, [str(column) for column in range(0, columns, step)], rotation=0)
    axis.set_xlabel("block" if columns < MOST_COLUMNS else "blocks, merged")
