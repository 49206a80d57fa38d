"""The statistics of comparisons: intervals, paired effects, multiplicity, equivalence, and the verdict in a word.

One number per launch goes in: steps of one launch are not replicates (resampled against themselves they look different
in three cases of four). All tests are on log-ratios, so that a/b and b/a give the same answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

#: Level of every test, and one minus the level of every interval.
ALPHA = 0.05

#: Half-width of "practically equal": ratios between 1/(1 + margin) and 1 + margin.
MARGIN = 0.02

#: Walsh averages are formed of at most this many values; more are thinned to evenly spaced order statistics.
WALSH_LIMIT = 1000


class Interval(NamedTuple):
    """Arithmetic mean, its t interval (NaN when n < 2), standard deviation with n − 1 (NaN when n < 2), and n."""

    mean: float
    low: float
    high: float
    deviation: float
    n: int


class Effect(NamedTuple):
    """Of paired log-ratios: interval on the log scale, Hodges–Lehmann estimate, two-sided p, equivalence (TOST) p."""

    interval: Interval
    hodges_lehmann: float
    p: float
    p_equivalence: float


class Difference(NamedTuple):
    """Of two independent samples: difference of the means (second − first), its Welch interval, two-sided p,
    equivalence (TOST) p, and the one-sided p for "the difference is beyond +log(1 + margin)"; NaN where n < 2."""

    mean: float
    low: float
    high: float
    p: float
    p_equivalence: float
    p_above: float


def ratio(log_ratio: float) -> float:
    """e to this power; infinite beyond what a float holds, as the interval of two wild blocks can be."""
    try:
        return math.exp(log_ratio)
    except OverflowError:
        return math.inf


def t_interval(values: np.ndarray, alpha: float = ALPHA) -> Interval:
    """Student's interval for the mean of independent values, shape (n,)."""
    n = len(values)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, math.nan, 0)
    mean = float(np.mean(values))
    if n == 1:
        return Interval(mean, math.nan, math.nan, math.nan, 1)
    deviation = float(np.std(values, ddof=1))
    half = float(special.stdtrit(n - 1, 1 - alpha / 2)) * deviation / math.sqrt(n)
    return Interval(mean, mean - half, mean + half, deviation, n)


def factor_of_mean(mean: Any, deviation: Any, n: Any, alpha: float = ALPHA) -> Any:
    """f of the interval mean ÷ f … mean × f for the mean of positive values, from arrays of any one shape.

    Student's interval for the logarithm of the mean, whose standard error is, by the delta method, that of the mean
    over the mean. It stays above zero, as a time must (one around the mean itself reaches below where two launches
    differ by a sixth), it holds the mean, and 1/x turns it into one for a rate. Its coverage is printed by
    tests/benchmarks/statistics_simulation.py. NaN where n < 2.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(np.asarray(n) > 1, np.asarray(n) - 1.0, np.nan)
        return np.exp(special.stdtrit(freedom, 1 - alpha / 2) * deviation / (mean * np.sqrt(n)))


def hodges_lehmann(values: np.ndarray) -> float:
    """Median of all Walsh averages (x_i + x_j) / 2, i ≤ j (Hodges & Lehmann 1963); NaN for no values."""
    ordered = np.sort(values)
    if len(ordered) == 0:
        return math.nan
    if len(ordered) > WALSH_LIMIT:
        ordered = ordered[np.linspace(0, len(ordered) - 1, WALSH_LIMIT).astype(int)]
    first, second = np.triu_indices(len(ordered))
    return float(np.median((ordered[first] + ordered[second]) / 2))


def paired_effect(log_ratios: np.ndarray, margin: float = MARGIN) -> Effect:
    """The effect of shape (n,) paired log-ratios; p values are NaN when n < 2.

    Equivalence by two one-sided t tests (Schuirmann 1987) against ±log(1 + margin).
    """
    interval = t_interval(log_ratios)
    if interval.n < 2:
        return Effect(interval, hodges_lehmann(log_ratios), math.nan, math.nan)
    error, freedom, bound = interval.deviation / math.sqrt(interval.n), interval.n - 1, math.log1p(margin)
    p = 2 * _upper_tail(abs(interval.mean), error, freedom)
    above = _upper_tail(interval.mean + bound, error, freedom)
    below = _upper_tail(bound - interval.mean, error, freedom)
    return Effect(interval, hodges_lehmann(log_ratios), min(p, 1.0), max(above, below))


def welch(first: Interval, second: Interval, margin: float = MARGIN) -> Difference:
    """How the second mean differs from the first (Welch 1947), on the log scale, from two samples' summaries.

    Launches of two studies are no pairs: nothing happened to both at the same time.
    """
    mean = second.mean - first.mean
    if first.n < 2 or second.n < 2:
        return Difference(mean, math.nan, math.nan, math.nan, math.nan, math.nan)
    parts = first.deviation**2 / first.n, second.deviation**2 / second.n
    error, bound = math.sqrt(sum(parts)), math.log1p(margin)
    shares = sum(part**2 / (sample.n - 1) for part, sample in zip(parts, (first, second), strict=True))
    freedom = error**4 / shares if shares else float(first.n + second.n - 2)
    half = float(special.stdtrit(freedom, 1 - ALPHA / 2)) * error
    above = _upper_tail(mean + bound, error, freedom)
    below = _upper_tail(bound - mean, error, freedom)
    return Difference(
        mean,
        mean - half,
        mean + half,
        min(2 * _upper_tail(abs(mean), error, freedom), 1.0),
        max(above, below),
        _upper_tail(mean - bound, error, freedom),
    )


def _upper_tail(distance: float, error: float, freedom: float) -> float:
    """P(T > distance/error). Without any spread the answer is certain: 0 beyond zero, 1 short of it, ½ on it."""
    if error == 0:
        return 0.5 if distance == 0 else float(distance < 0)
    return float(special.stdtr(freedom, -distance / error))


def holm(p_values: Sequence[float] | np.ndarray) -> np.ndarray:
    """Holm's (1979) adjusted p values, same order; NaN stays NaN and does not count into the family."""
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, math.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    factors = len(order) - np.arange(len(order))
    adjusted[order] = np.minimum(np.maximum.accumulate(factors * p[order]), 1.0) if len(order) else 0.0
    return adjusted


def verdict(mean_log_ratio: float, n: int, p_holm: float, p_equivalence_holm: float) -> str:
    """The comparison in a word: the test for a difference crossed with the test for equivalence."""
    if n == 0:
        return "NO COMMON BLOCK"
    if n == 1:
        return "n = 1: no interval"
    different, equivalent = p_holm < ALPHA, p_equivalence_holm < ALPHA
    if different and equivalent:
        return "DIFFERENT BUT SMALL"
    if different:
        return "FASTER" if mean_log_ratio < 0 else "SLOWER"
    return "EQUIVALENT" if equivalent else "UNDECIDED"


def neighbour_log_ratio(first: np.ndarray, second: np.ndarray) -> float | None:
    """Median log-ratio of windows measured in turn: each window of `first` with the nearest in time of `second`.

    Both have shape (2, windows): start and seconds a step. None where the two did not take turns, as when one of them
    was repeated alone later: their windows are then no neighbours.
    """
    if not _took_turns(first[0], second[0]):
        return None
    after = np.clip(np.searchsorted(second[0], first[0]), 1, max(second.shape[1] - 1, 1))
    candidates = np.stack([after - 1, np.minimum(after, second.shape[1] - 1)])
    nearest = np.abs(second[0][candidates] - first[0]).argmin(axis=0)
    partner = candidates[nearest, np.arange(first.shape[1])]
    return _median(np.log(first[1] / second[1][partner]))


def _took_turns(first: np.ndarray, second: np.ndarray) -> bool:
    """Whether the middle of each trial's window starts lies within the other's span.

    Trials that ran at the same time only at their ends share windows, but most would be paired across a gap.
    """
    return all(b[0] <= _median(a) <= b[-1] for a, b in ((first, second), (second, first)))


def _median(values: np.ndarray) -> float:
    """NumPy's median without its checks, which take ten times as long as the sum of some 30 values."""
    ordered, half = np.sort(values), len(values) // 2
    return float(ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2)
