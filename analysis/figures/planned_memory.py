"""The compiler's plan by condition: arguments, results, temporaries and code, stacked to the peak. Nothing was run."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from analysis.figures import launches, style
from analysis.tables import Tables
from analysis.words import MIB

QUESTION = "Planned, not measured: how much memory does the compiler give a step?"
TABLE = "compiled"
COLUMNS = ("planned_peak_bytes",)
ORDER = 110
EVIDENCE = "compiled"

#: Part → how dark it is drawn. Results that reuse arguments count once, as arguments.
PARTS = {"arguments": 0.9, "results": 0.6, "temporaries": 0.35, "code": 0.15}


def draw(tables: Tables) -> Figure:
    """One row a condition, in MiB; its parts from left to right, the whole bar the planned peak."""
    rows, cut = launches.shown_conditions(tables.compiled, "planned_peak_bytes")
    rows = rows[rows["planned_peak_bytes"].notna()]
    figure, axes = style.row_figure(launches.row_names(rows), QUESTION)
    style.value_axis(axes[0], rows["planned_peak_bytes"].to_numpy(float) / MIB, "planned peak (MiB)", zero=True)
    left = rows["planned_argument_bytes"].to_numpy(float) * 0
    for part, values in _parts(rows).items():
        _draw_part(axes[0], launches.frameworks(rows), left, values, PARTS[part])
        left = left + values
    handles = [Patch(color=style.INK, alpha=alpha, label=part, linewidth=0) for part, alpha in PARTS.items()]
    style.legend_above(axes[0], handles)
    style.footnote(axes[0], "Peak = arguments + results − results that reuse arguments + temporaries + code." + cut)
    return figure


def _parts(rows: pd.DataFrame) -> dict[str, np.ndarray]:
    bytes_of = {name: rows[f"planned_{name}_bytes"].to_numpy(float) for name in ("argument", "output", "alias", "temp")}
    return {
        "arguments": bytes_of["argument"],
        "results": bytes_of["output"] - bytes_of["alias"],
        "temporaries": bytes_of["temp"],
        "code": rows["planned_code_bytes"].to_numpy(float),
    }


def _draw_part(axis: Axes, names: list[str], left: np.ndarray, values: np.ndarray, alpha: float) -> None:
    colours = [style.colour(name) for name in names]
    rows = range(len(names))
    axis.barh(rows, values / MIB, left=left / MIB, height=0.55, color=colours, alpha=alpha, linewidth=0)
