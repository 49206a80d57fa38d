"""Launch values by condition, as points with mean and interval: what step time and throughput share."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes

from analysis.conditions import KEY
from analysis.figures import style
from analysis.frames import is_mixed
from analysis.labels import framework_label
from runners.records import OutcomeKind

#: The axis goes beyond what was seen by this factor at most, whatever the intervals are.
MOST_REACH = 3.0

#: At most this many points a row: of more launches evenly spaced order statistics are drawn, which keep the shape.
MOST_POINTS = 60

#: At most this many a panel, where there are many rows: more cannot be told apart, and make files of megabytes.
MOST_POINTS_OF_ALL = 1_200

#: A mode that has no meaning somewhere is an answer, no failure.
FAILURES = [kind.value for kind in OutcomeKind if kind not in (OutcomeKind.OK, OutcomeKind.NOT_APPLICABLE)]


def shown_conditions(conditions: pd.DataFrame, by: str) -> tuple[pd.DataFrame, str]:
    """The rows to draw, and the sentence that says what was left out: of too many, the lowest and the highest."""
    if len(conditions) <= style.MOST_ROWS:
        return conditions, ""
    order = conditions.sort_values(by, kind="stable", na_position="last")
    half = style.MOST_ROWS // 2
    shown = pd.concat([order.head(half), order[order[by].notna()].tail(half)])
    return shown[~shown.index.duplicated()], style.left_out(len(shown), len(conditions), "the lowest and the highest")


def row_names(table: pd.DataFrame, names: Iterable[str] | None = None) -> list[str]:
    """The rows' labels, or these `names` of them; with the provenance in front where there are several."""
    several = is_mixed(table["provenance_hash"])
    pairs = zip(table["provenance_hash"], table["label"] if names is None else names, strict=True)
    return [f"{provenance[:8]}: {name}" if several else name for provenance, name in pairs]


def frameworks(table: pd.DataFrame) -> list[str]:
    """The framework label of every row."""
    return [framework_label(*names) for names in zip(table["framework"], table["compile"], strict=True)]


def values_by_row(conditions: pd.DataFrame, trials: pd.DataFrame, column: str, scale: float = 1.0) -> list[np.ndarray]:
    """For every row of `conditions` the values of its ok launches × `scale`, thinned to what can be drawn."""
    ok = trials[trials["step_seconds"].notna() & trials[column].notna()]
    groups = {key: values.to_numpy(float) for key, values in ok.groupby(KEY, sort=False, dropna=False)[column]}
    found = [groups.get(key, np.array([])) for key in zip(*(conditions[name] for name in KEY), strict=True)]
    most = min(MOST_POINTS, MOST_POINTS_OF_ALL // max(len(found), 1))
    return [_thinned(values, most) * scale for values in found]


def _thinned(values: np.ndarray, most: int) -> np.ndarray:
    if len(values) <= most:
        return values
    return np.sort(values)[np.linspace(0, len(values) - 1, most).astype(int)]


def draw_points(axis: Axes, values: list[np.ndarray], names: list[str]) -> None:
    """The launches of each row, spread a little in the order in which they are given."""
    rows = [row for row, found in enumerate(values) for _ in found]
    if not rows:
        return
    spread = [place for found in values for place in np.linspace(-0.22, 0.22, len(found)) * (len(found) > 1)]
    data = pd.DataFrame(
        {
            "x": np.concatenate(values),
            "y": np.array(rows) + np.array(spread),
            "framework": [names[row] for row in rows],
        }
    )
    kinds = sorted(set(data["framework"]))
    sns.scatterplot(
        data=data,
        x="x",
        y="y",
        hue="framework",
        style="framework",
        palette={kind: style.colour(kind) for kind in kinds},
        markers={kind: style.marker(kind) for kind in kinds},
        hue_order=kinds,
        s=20,
        alpha=0.55,
        linewidth=0,
        legend=False,
        ax=axis,
    )
    axis.set_ylabel("")


def draw_means(axis: Axes, intervals: pd.DataFrame, values: list[np.ndarray], label: str) -> str:
    """Scale the axis, and draw each row's mean as a diamond with its interval, where there is one.

    `intervals` has three columns, mean, low and high, in the units of `label`; `values` are the launches of each row.
    An interval of two or three launches may be a hundred times as long as all that was seen: it is cut, with an arrow.
    Returns the sentence that says so, or an empty text.
    """
    means, lows, highs = intervals.to_numpy(float).T
    seen = np.concatenate([*values, means[np.isfinite(means)]])
    least, most = (seen.min() / MOST_REACH, seen.max() * MOST_REACH) if len(seen) else (0.0, 0.0)
    style.value_axis(axis, seen, label, include=[*np.maximum(lows, least), *np.minimum(highs, most)])
    left, right = axis.get_xlim()
    for row in np.flatnonzero(np.isfinite(means)):
        if np.isfinite(lows[row]):
            ends = [max(lows[row], left), min(highs[row], right)]
            axis.plot(ends, [row, row], color=style.INK, linewidth=1.6, solid_capstyle="butt", zorder=4)
            inside = axis.get_yaxis_transform()
            for cut, place, arrow in ((lows[row] < left, 0.012, "<"), (highs[row] > right, 0.988, ">")):
                if cut:
                    axis.plot([place], [row], marker=arrow, color=style.INK, markersize=6, transform=inside, zorder=4)
        axis.plot([means[row]], [row], marker="D", markersize=5, color=style.INK, zorder=5)
    return " Arrow: the interval goes on." if (lows < left).any() or (highs > right).any() else ""


def say_outcomes(axis: Axes, row: int, condition: dict[str, Any], interval: bool = True) -> None:
    """n beside a row, and its failures as a cross with the word.

    Where intervals are drawn (`interval`), n = 1 says that it has none, and a row without a value has a cross inside.
    """
    n = int(condition["launches_count"])
    number = "" if n == 0 else "n = 1: no interval" if n == 1 and interval else f"n = {n}"
    failed = [f"{int(condition[f'{kind}_count'])} {kind}" for kind in FAILURES if condition[f"{kind}_count"] > 0]
    unmeant = "not applicable" if condition["not_applicable_count"] > 0 else ""
    colour = style.FAILURE if failed else style.FAINT
    parts = [number, f"✕ {', '.join(failed)}" if failed else "", unmeant]
    style.beside(axis, row, "  ".join(filter(None, parts)), colour)
    if n == 0 and failed and interval:
        axis.plot([0.03], [row], marker="x", markersize=7, color=colour, transform=axis.get_yaxis_transform())
