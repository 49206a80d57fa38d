"""The comparisons as a forest plot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis import words
from analysis.figures import launches, style
from analysis.frames import records
from analysis.tables import Tables

QUESTION = "Which is faster, and is the difference certain?"
TABLE = "pairs"
COLUMNS = ("time_ratio",)
ORDER = 10

#: Places for ticks, going away from 1.
ABOVE = (1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.5, 2, 3, 5, 10, 20, 50, 100, 1e3, 1e4, 1e5, 1e6)
BELOW = (0.99, 0.98, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 1e-3, 1e-4, 1e-5, 1e-6)


def draw(tables: Tables) -> Figure:
    """One row a pair: ratio of step times with its 95 % interval, against the band of practical equality."""
    rows, cut = _shown(tables.pairs)
    figure, (axis,) = style.row_figure(_names(rows), QUESTION)
    margin = float(rows["margin_ratio"].iloc[0])
    band = (1 / (1 + margin), 1 + margin)
    ends = rows[["time_ratio", "time_ratio_low", "time_ratio_high"]].to_numpy(float).ravel()
    _axis(axis, np.concatenate([ends[np.isfinite(ends)], band]))
    axis.axvspan(*band, color=style.BAND, zorder=0)
    axis.axvline(1, color=style.FAINT, linewidth=1, zorder=1)
    for number, pair in enumerate(records(rows)):
        _draw_pair(axis, number, pair)
    style.footnote(
        axis,
        f"Left of 1: the first takes less time. Band: ± {margin:.2g} counts as equal. Line: 95 % t interval over "
        "blocks; open circle: Hodges–Lehmann estimate." + cut,
    )
    return figure


def _shown(pairs: pd.DataFrame) -> tuple[pd.DataFrame, str]:
    if len(pairs) <= style.MOST_ROWS:
        return pairs, ""
    order = pairs[pairs["time_ratio"].notna()].sort_values("time_ratio", kind="stable")
    half = min(style.MOST_ROWS, len(order)) // 2
    shown = pd.concat([order.head(half), order.tail(half)])
    return shown[~shown.index.duplicated()], style.left_out(
        len(shown), len(pairs), "the smallest and the largest ratios"
    )


def _names(pairs: pd.DataFrame) -> list[str]:
    names = zip(pairs["level_a"], pairs["level_b"], pairs["cell"], strict=True)
    return launches.row_names(pairs, [f"{a} ÷ {b}{' — ' if cell else ''}{cell}" for a, b, cell in names])


def _axis(axis: Axes, values: np.ndarray) -> None:
    """A log axis for ratios, as a half and a double are equally far from 1; its ticks go outwards from 1."""
    low, high = float(np.log(values.min())), float(np.log(values.max()))
    margin = 0.08 * (high - low)
    axis.set_xscale("log")
    axis.set_xlim(math.exp(low - margin), math.exp(high + margin))
    ticks = [1.0, *_outwards(ABOVE, high, 0.14 * (high - low)), *_outwards(BELOW, -low, 0.14 * (high - low))]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.minorticks_off()
    axis.set_xlabel("ratio of step times (log scale)")
    axis.tick_params(axis="x", labelsize=8)


def _outwards(candidates: tuple[float, ...], reach: float, apart: float) -> list[float]:
    """Those of the candidates, going away from 1, that are within reach and far enough from the one before (logs)."""
    chosen = [1.0]
    for tick in candidates:
        if abs(math.log(tick)) <= reach and abs(math.log(tick / chosen[-1])) >= apart:
            chosen.append(tick)
    return chosen[1:]


def _draw_pair(axis: Axes, row: int, pair: dict[str, Any]) -> None:
    wrong = not words.is_missing(pair["match"]) and not pair["match"]
    colour = style.FAILURE if wrong else style.INK
    if not pair["blocks_count"]:
        axis.plot([1], [row], marker="x", markersize=7, color=style.FAILURE)
        style.beside(axis, row, "no common block", style.FAILURE)
        return
    if math.isfinite(pair["time_ratio_low"]):
        ends = [pair["time_ratio_low"], pair["time_ratio_high"]]
        axis.plot(ends, [row, row], color=colour, linewidth=1.8, solid_capstyle="butt", zorder=3)
        estimate = pair["hodges_lehmann_ratio"]
        axis.plot([estimate], [row], marker="o", markersize=8, markerfacecolor="none", color=colour, zorder=4)
    axis.plot([pair["time_ratio"]], [row], marker="D", markersize=5, color=colour, zorder=5)
    verdict = "NOT MATCHED" if wrong else pair["verdict"]
    style.beside(axis, row, f"{words.ratio(pair['time_ratio'])}  {verdict}", colour)
