"""Warnings about conditions: reasons to read a number with care. Nothing is dropped because of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from analysis import words
from analysis.conditions import KEY

LAUNCH_COV = 0.05
LAG1_CORRELATION = 0.3
TREND_P = 0.01
SEVERE_SHARE = 0.05
SHORTEST_WINDOW_SECONDS = 0.1

#: Fewer launches cannot reach p < .01 in an exact test of order (5! = 120 orders, two-sided).
MINIMUM_FOR_TREND = 6

COLUMNS = ("provenance_hash", "condition_id", "label", "warning", "value", "threshold", "text")


class Finding(NamedTuple):
    """One warning: its name, the value in the unit that the text names, the threshold, and the sentence."""

    warning: str
    value: float
    threshold: float
    text: str


def warnings_table(trials: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """All warnings, condition by condition: ours, then those that the trials recorded themselves."""
    ok = trials[trials["step_seconds"].notna()]
    launches = ok.groupby(KEY, sort=False, dropna=False)["step_seconds"].apply(lambda values: values.to_numpy())
    rows = [
        (*key, labels[key[1]], *finding)
        for key, summary in _summaries(ok).items()
        for finding in _findings(launches[key], summary)
    ]
    rows += [(*key, labels[key[1]], *finding) for key, finding in _recorded(trials)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _summaries(ok: pd.DataFrame) -> dict[tuple[str, str], Any]:
    """(provenance, condition) → what its launches' windows add up to."""
    table = ok.assign(unsteady=ok["steady"].eq(False).fillna(False).astype(int))
    summary = table.groupby(KEY, sort=False, dropna=False).agg(
        lag1=("window_lag1_correlation", "median"),
        windows=("windows", "sum"),
        mild=("mild_outlier_windows", "sum"),
        severe=("severe_outlier_windows", "sum"),
        shortest=("window_seconds_median", "min"),
        unsteady=("unsteady", "sum"),
    )
    return dict(zip(summary.index, summary.itertuples(index=False), strict=True))


def _findings(launches: np.ndarray, summary: Any) -> Iterator[Finding]:
    """Warnings about one condition: `launches` are its step times in seconds, in the order in which they ran."""
    yield from _variation(launches)
    yield from _trend(launches)
    yield from _windows(summary)
    if summary.unsteady:
        number = f"{summary.unsteady} of {words.count(len(launches), 'launch')}"
        yield Finding("not_steady", summary.unsteady, 0, f"no steady state at the end of warm-up in {number}")


def _variation(seconds: np.ndarray) -> Iterator[Finding]:
    if len(seconds) < 2:
        return
    cov = float(np.std(seconds, ddof=1) / np.mean(seconds))
    if cov > LAUNCH_COV:
        text = f"launches differ by {cov:.1%} (standard deviation ÷ mean of {len(seconds)})"
        yield Finding("launch_variation", cov, LAUNCH_COV, text)


def _trend(seconds: np.ndarray) -> Iterator[Finding]:
    """Kendall's test of the step times against their order (Mann 1945): exact for few launches, no shape assumed."""
    if len(seconds) < MINIMUM_FOR_TREND or len(np.unique(seconds)) == 1:
        return
    result = stats.kendalltau(np.arange(len(seconds)), seconds)
    p, direction = float(result.pvalue), "slower" if result.statistic > 0 else "faster"
    if p < TREND_P:
        yield Finding("order_trend", p, TREND_P, f"launches got {direction} in the course of the study (p = {p:.2g})")


def _windows(summary: Any) -> Iterator[Finding]:
    if summary.lag1 > LAG1_CORRELATION:
        text = f"neighbouring windows are correlated (lag 1: {summary.lag1:.2f}, median launch)"
        yield Finding("autocorrelation", summary.lag1, LAG1_CORRELATION, text)
    share = summary.severe / summary.windows if summary.windows else 0.0
    if share > SEVERE_SHARE:
        number = words.count(int(summary.windows), "window")
        text = f"{summary.severe} severe and {summary.mild} mild outliers in {number}, all kept"
        yield Finding("outliers", share, SEVERE_SHARE, text)
    if summary.shortest < SHORTEST_WINDOW_SECONDS:
        text = f"windows as short as {words.milliseconds(summary.shortest)}: the clock and the fence weigh more"
        yield Finding("short_windows", summary.shortest, SHORTEST_WINDOW_SECONDS, text)


def _recorded(trials: pd.DataFrame) -> Iterator[tuple[tuple[str, str], Finding]]:
    """The trials' own warnings: each distinct text of a condition once, with the number of trials that gave it."""
    told = trials.loc[trials["warnings"].notna(), [*KEY, "warnings"]]
    told = told.assign(warnings=told["warnings"].str.split("; ")).explode("warnings")
    counts = Counter(told[[*KEY, "warnings"]].itertuples(index=False, name=None))
    for (provenance, condition, text), number in counts.items():
        yield (provenance, condition), Finding("recorded", number, 0, f"{text} ({words.count(number, 'trial')})")
