"""The largest batch that fits, by framework and chip, from real compilations. Nothing was run."""

from __future__ import annotations

import pandas as pd
from matplotlib.figure import Figure

from analysis.capacity import bound
from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables

QUESTION = "Compiled, not measured: what is the largest batch that fits?"
TABLE = "compiled_capacity"
COLUMNS = ("largest_batch_size",)
ORDER = 150
EVIDENCE = "compiled"


def draw(tables: Tables) -> Figure:
    """One row for each framework, chip and workload: the largest batch that was compiled."""
    note = "Every batch that was tried was compiled for the chip."
    return frontier(tables.compiled_capacity, QUESTION, note, alpha=0.6)


def frontier(capacity: pd.DataFrame, question: str, note: str, alpha: float) -> Figure:
    """A bar for each row of a capacity table of one kind of evidence."""
    rows = capacity.head(style.MOST_ROWS)
    names = [name + bound(row) for name, row in zip(launches.row_names(rows), records(rows), strict=True)]
    figure, axes = style.row_figure(names, question)
    refused = [None if size is pd.NA else int(size) for size in rows["smallest_refused_batch_size"]]
    sizes = rows["largest_batch_size"].to_numpy(float)
    style.value_axis(axes[0], sizes, "examples a step", zero=True)
    for row, (name, size) in enumerate(zip(launches.frameworks(rows), sizes, strict=True)):
        axes[0].barh(row, size, height=0.55, color=style.colour(name), alpha=alpha, linewidth=0)
        style.beside(axes[0], row, _words(int(size), refused[row]))
    style.footnote(axes[0], note + style.left_out(len(rows), len(capacity), "the first"))
    return figure


def _words(largest: int, refused: int | None) -> str:
    if refused is None:
        return f"{largest:,}, more not tried"
    return f"{largest:,}" if refused - largest == 1 else f"{largest:,} (refused: {refused:,})"
