"""What a trial's windows say in a few numbers: median, outliers by quartiles, correlation of neighbours.

Plain Python on purpose: it runs once a trial on some 30 numbers, where NumPy's call overhead is ten times the work.
"""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Sequence
from typing import NamedTuple

#: Below this many windows a lag-1 correlation of 0.3 is what chance gives (its standard error is about 1/√n).
MINIMUM_FOR_CORRELATION = 10


class WindowSummary(NamedTuple):
    """Of the finite windows: `median_seconds`, numbers of mild and severe outliers, lag-1 correlation or None."""

    median_seconds: float | None
    mild: int | None
    severe: int | None
    lag1: float | None


def summarise(window_seconds: Sequence[float]) -> WindowSummary:
    """The summary of one trial's windows, given in seconds and in time order. Non-finite windows are left out."""
    values = list(filter(math.isfinite, window_seconds))
    if not values:
        return WindowSummary(None, None, None, None)
    ordered = sorted(values)
    mild, severe = outliers(ordered)
    return WindowSummary(quantile(ordered, 0.5), mild, severe, lag1_correlation(values))


def quantile(ordered: Sequence[float], fraction: float) -> float:
    """Quantile of a sorted sequence with linear interpolation (Hyndman and Fan's type 7)."""
    place = (len(ordered) - 1) * fraction
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def outliers(ordered: Sequence[float]) -> tuple[int, int]:
    """Numbers of mild and severe outliers: 1.5 to 3, and more than 3 quartile ranges outside the quartiles (Tukey)."""
    low, high = quantile(ordered, 0.25), quantile(ordered, 0.75)
    spread = high - low
    inner, outer = (
        len(ordered)
        - bisect.bisect_right(ordered, high + reach * spread)
        + bisect.bisect_left(ordered, low - reach * spread)
        for reach in (1.5, 3.0)
    )
    return inner - outer, outer


def lag1_correlation(values: Sequence[float]) -> float | None:
    """Sample autocorrelation at lag 1; None for fewer than 10 values or no variation."""
    if len(values) < MINIMUM_FOR_CORRELATION:
        return None
    mean = sum(values) / len(values)
    centred = [value - mean for value in values]
    power = sum(map(operator.mul, centred, centred))
    if power == 0.0:
        return None
    return sum(map(operator.mul, centred, centred[1:])) / power
