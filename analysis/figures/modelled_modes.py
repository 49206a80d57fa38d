"""What a process keeps of a GPU by allocation mode, and how many of its kind the GPU has room for: a replay."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.allocator_model import MOST_TENANTS, modes
from analysis.figures import launches, style
from analysis.frames import is_mixed, records
from analysis.labels import SEPARATOR
from analysis.tables import Tables
from analysis.words import MIB

QUESTION = (
    "Modelled, neither measured nor compiled: what does each allocation mode keep of a GPU, and how many processes fit?"
)
TABLE = "modelled"
COLUMNS = ("modelled_process_bytes",)
ORDER = 160
EVIDENCE = "modelled"

#: As many rows as are drawn, no plan cut in two.
WHOLE_PLANS = style.MOST_ROWS // len(modes("jax")) * len(modes("jax"))


def draw(tables: Tables) -> Figure:
    """One row a plan and mode; on the left the first process's memory in MiB, on the right processes side by side."""
    known = tables.modelled[tables.modelled["modelled_process_bytes"].notna()]
    rows = known.head(WHOLE_PLANS)
    names = launches.frameworks(rows)
    several = is_mixed(known["chip"])
    said = launches.row_names(rows, [_name(row, several) for row in records(rows)])
    figure, axes = style.row_figure(said, QUESTION, panels=2, width=9.0)
    held = rows["modelled_process_bytes"].to_numpy(float) / MIB
    capacity = rows["modelled_capacity_bytes"].to_numpy(float) / MIB
    tenants = rows["modelled_tenants_count"].to_numpy(float)
    style.value_axis(axes[0], held, "memory of one process (MiB)", include=list(np.unique(capacity)))
    style.value_axis(axes[1], tenants, "processes on one chip", zero=True)
    for row, (name, fits) in enumerate(zip(names, rows["modelled_fits"], strict=True)):
        for axis, value in zip(axes, (held[row], tenants[row]), strict=True):
            axis.plot([value], [row], marker=style.marker(name), color=style.colour(name), linestyle="none")
        if not fits:
            style.beside(axes[1], row, "✕ out of memory", style.FAILURE)
    for edge in np.unique(capacity):
        axes[0].axvline(edge, color=style.INK, linewidth=1)
    cut = style.left_out(len(rows), len(known), "the first plans")
    style.footnote(axes[0], _reading(len(np.unique(capacity))) + cut)
    return figure


def _name(row: dict[str, Any], chips: bool) -> str:
    """The mode first, which a long label must not lose; the chip where there are several."""
    return SEPARATOR.join([row["mode"], *([row["chip"]] if chips else []), row["label"]])


def _reading(chips: int) -> str:
    line = "The line is the chip's memory." if chips == 1 else "The lines are the chips' memories."
    most = f"{MOST_TENANTS} processes are {MOST_TENANTS} or more."
    return f"{line} {most} The parameters, and what is assumed, stand beside the table."
