"""The table of comparisons: one row a pair of levels in a cell, with effect, interval, verdict and memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from analysis import statistics, words
from analysis.frames import is_mixed, records
from analysis.journal_reader import Evidence
from analysis.pairing import Pair

COLUMNS = (
    "provenance_hash",
    "cell",
    "level_a",
    "level_b",
    "condition_a",
    "condition_b",
    "blocks_count",
    "not_ok_a_count",
    "not_ok_b_count",
    "unpaired_blocks_count",
    "method",
    "time_ratio",
    "time_ratio_low",
    "time_ratio_high",
    "hodges_lehmann_ratio",
    "paired_sd_log",
    "p_value",
    "p_value_holm",
    "equivalence_p_value",
    "equivalence_p_value_holm",
    "margin_ratio",
    "host_peak_blocks_count",
    "host_peak_difference_median_bytes",
    "host_peak_difference_low_bytes",
    "host_peak_difference_high_bytes",
    "verdict",
    "note",
)

INTERLEAVED = "neighbouring windows"
BY_LAUNCH = "trial values"


def pairs_table(pairs: list[Pair], trials: pd.DataFrame, evidence: Evidence, margin: float) -> pd.DataFrame:
    """One row a pair. Holm's family is all pairs of the table that have two common blocks or more."""
    seconds = value_of(trials, "step_seconds")
    host = value_of(trials, "host_peak_above_baseline_bytes")
    sessions = dict(zip(trials.index, trials["session_id"], strict=True))
    rows = [_pair_row(pair, seconds, host, evidence, sessions, margin) for pair in pairs]
    table = pd.DataFrame(rows, columns=[name for name in COLUMNS if not name.endswith("_holm") and name != "verdict"])
    table["p_value_holm"] = statistics.holm(table["p_value"].to_numpy(float))
    table["equivalence_p_value_holm"] = statistics.holm(table["equivalence_p_value"].to_numpy(float))
    table["verdict"] = [_verdict(row) for row in records(table)]
    return table[list(COLUMNS)].astype({"blocks_count": "Int64", "host_peak_blocks_count": "Int64"})


def with_sentences(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs (with their match) and a column `sentence`: each row as it is said."""
    several = is_mixed(pairs["provenance_hash"])
    return pairs.assign(sentence=[words.pair_sentence(row, several) for row in records(pairs)])


def common_cells_table(pairs: pd.DataFrame) -> pd.DataFrame:
    """Per pair of levels over all cells: the geometric mean of the ratios of the cells that both sides have."""
    rows = []
    for (provenance, a, b), cells in pairs.groupby(["provenance_hash", "level_a", "level_b"], sort=False):
        ratios = cells["time_ratio"].dropna().to_numpy(float)
        mean = float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else math.nan
        rows.append((provenance, a, b, len(ratios), len(cells) - len(ratios), mean, *_range(ratios)))
    names = [
        "common_cells_count",
        "missing_cells_count",
        "time_ratio_geometric_mean",
        "time_ratio_min",
        "time_ratio_max",
    ]
    return pd.DataFrame(rows, columns=["provenance_hash", "level_a", "level_b", *names])


def _range(ratios: np.ndarray) -> tuple[float, float]:
    return (float(ratios.min()), float(ratios.max())) if len(ratios) else (math.nan, math.nan)


def _pair_row(
    pair: Pair,
    seconds: Callable[[list[int]], float],
    host: Callable[[list[int]], float],
    evidence: Evidence,
    sessions: dict[int, str],
    margin: float,
) -> dict[str, Any]:
    ratios, methods = log_ratios(pair, seconds, evidence, sessions)
    effect = statistics.paired_effect(ratios, margin)
    mean, low, high, deviation, n = effect.interval
    bytes_apart = np.array([host(a) - host(b) for a, b in pair.common])
    bytes_apart = bytes_apart[~np.isnan(bytes_apart)]
    memory = statistics.t_interval(bytes_apart)
    return {
        "provenance_hash": pair.provenance_hash,
        "cell": pair.cell,
        "level_a": pair.first.label,
        "level_b": pair.second.label,
        "condition_a": pair.first.condition,
        "condition_b": pair.second.condition,
        "blocks_count": n,
        "not_ok_a_count": pair.first.not_ok,
        "not_ok_b_count": pair.second.not_ok,
        "unpaired_blocks_count": len(set(pair.first.usable) ^ set(pair.second.usable)),
        "method": methods,
        "time_ratio": statistics.ratio(mean),
        "time_ratio_low": statistics.ratio(low),
        "time_ratio_high": statistics.ratio(high),
        "hodges_lehmann_ratio": statistics.ratio(effect.hodges_lehmann),
        "paired_sd_log": deviation,
        "p_value": effect.p,
        "equivalence_p_value": effect.p_equivalence,
        "margin_ratio": margin,
        "host_peak_blocks_count": len(bytes_apart),
        "host_peak_difference_median_bytes": float(np.median(bytes_apart)) if len(bytes_apart) else math.nan,
        "host_peak_difference_low_bytes": memory.low,
        "host_peak_difference_high_bytes": memory.high,
        "note": pair.gap or _disagreement(effect),
    }


def log_ratios(
    pair: Pair, seconds: Callable[[list[int]], float], evidence: Evidence, sessions: dict[int, str]
) -> tuple[np.ndarray, str]:
    """log(T_a/T_b) of each common block, and by which method; repeats within a block are averaged first."""
    ratios, methods = [], []
    for first, second in pair.common:
        ratio = _interleaved(first, second, evidence, sessions)
        methods.append(BY_LAUNCH if ratio is None else INTERLEAVED)
        ratios.append(math.log(seconds(first) / seconds(second)) if ratio is None else ratio)
    return np.array(ratios), " and ".join(sorted(set(methods)))


def _interleaved(first: list[int], second: list[int], evidence: Evidence, sessions: dict[int, str]) -> float | None:
    """The ratio by neighbouring windows; None unless both are one trial, of one session, that took turns.

    The clock that windows are stamped with is that of one boot: times of two sessions cannot be set side by side.
    """
    if len(first) != 1 or len(second) != 1 or sessions[first[0]] != sessions[second[0]]:
        return None
    one, other = evidence.series.get(first[0]), evidence.series.get(second[0])
    return None if one is None or other is None else statistics.neighbour_log_ratio(one, other)


def value_of(trials: pd.DataFrame, column: str) -> Callable[[list[int]], float]:
    """A function from index labels to the mean of a column over them; NaN where one is missing."""
    values = dict(zip(trials.index, trials[column].to_numpy(dtype=float, na_value=math.nan), strict=True))
    return lambda labels: sum(values[label] for label in labels) / len(labels)


def _disagreement(effect: statistics.Effect) -> str:
    """A note where mean and Hodges–Lehmann estimate tell different stories, as with one outlying block.

    The limit is a third of the interval's half-width: some 3.5 standard deviations of their difference at n = 10 under
    normal errors, and passed by a single far outlier, which alone parts them by 1/t half-widths.
    """
    mean, low, high, _, n = effect.interval
    if n < 2 or abs(effect.hodges_lehmann - mean) <= (high - low) / 6:
        return ""
    place = "outside" if not low <= effect.hodges_lehmann <= high else "far from the middle of"
    ratio = words.ratio(statistics.ratio(effect.hodges_lehmann))
    return f"the Hodges–Lehmann estimate {ratio} lies {place} the t interval: look at the blocks"


def _verdict(row: dict[str, Any]) -> str:
    mean = math.log(row["time_ratio"]) if row["blocks_count"] else math.nan
    return statistics.verdict(mean, row["blocks_count"], row["p_value_holm"], row["equivalence_p_value_holm"])
