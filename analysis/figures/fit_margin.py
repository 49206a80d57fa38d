"""How much of a device's usable memory the plan leaves, or how much it lacks. Nothing was run."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.figures import launches, style
from analysis.tables import Tables

QUESTION = "Planned, not measured: does it fit, and with what margin?"
TABLE = "compiled"
COLUMNS = ("usable_bytes",)
ORDER = 120
EVIDENCE = "compiled"


def draw(tables: Tables) -> Figure:
    """One row a condition: planned peak, or what a refused plan asked for, as a share of the usable memory."""
    table = tables.compiled.assign(_needed=needed(tables.compiled))
    rows, cut = launches.shown_conditions(table[table["_needed"].notna()], "_needed")
    usable = rows["usable_bytes"].fillna(rows["bytes_available"]).to_numpy(float)
    shares = 100 * rows["_needed"].to_numpy(float) / usable
    figure, axes = style.row_figure(launches.row_names(rows), QUESTION)
    style.value_axis(axes[0], shares, "share of the usable memory (%)", include=(100.0,))
    axes[0].axvline(100.0, color=style.INK, linewidth=1)
    for row, (name, share) in enumerate(zip(launches.frameworks(rows), shares, strict=True)):
        if np.isfinite(share):
            axes[0].plot([share], [row], marker=style.marker(name), color=style.colour(name), linestyle="none")
            fits = share <= 100
            digits = 2 if share > 99.9 or share < 0.1 else 1
            words = f"{100 - share:,.{digits}f} % left" if fits else f"✕ lacks {share - 100:,.1f} %"
            style.beside(axes[0], row, words, style.FAINT if fits else style.FAILURE)
    style.footnote(axes[0], "The line is what the compiler grants one device." + cut)
    return figure


def needed(table: pd.DataFrame) -> pd.Series:
    """Bytes that the plan needs: its peak, or what the compiler's refusal says."""
    return table["planned_peak_bytes"].fillna(table["bytes_asked"])
