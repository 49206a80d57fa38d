"""Whether the findings of one study, its comparisons with a verdict, hold in another."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from analysis import statistics, words
from analysis.across import identity
from analysis.frames import records
from analysis.load import Journals
from analysis.statistics import Interval

HELD, REVERSED, LOST, UNDECIDED, NOTHING, ABSENT = (
    "HELD",
    "REVERSED",
    "NOT HELD",
    "UNDECIDED",
    "NO FINDING",
    "NOT COMPARED",
)

_DIRECTIONS = ("FASTER", "SLOWER")
_SMALL = ("EQUIVALENT", "DIFFERENT BUT SMALL")

COLUMNS = ["cell", "level_a", "level_b", "first_ratio", "first_verdict", "second_ratio", "second_low", "second_high"]
COLUMNS += ["second_blocks_count", "second_verdict", "ratio_of_ratios", "ratio_of_ratios_low", "ratio_of_ratios_high"]
COLUMNS += ["held", "sentence"]


def findings(first: tuple[Journals, pd.DataFrame], second: tuple[Journals, pd.DataFrame]) -> pd.DataFrame:
    """One row a comparison of the first study. Each side is its journals and its table of pairs."""
    there = {_key(second[0], pair): pair for pair in records(second[1])}
    rows = [_row(pair, there.get(_key(first[0], pair))) for pair in records(first[1])]
    return pd.DataFrame(rows, columns=COLUMNS)


def held(first: str, second: str) -> str:
    """What became of a verdict, given the verdict of the same comparison in the other study."""
    if first not in (*_DIRECTIONS, *_SMALL):
        return NOTHING
    if second not in (*_DIRECTIONS, *_SMALL):
        return ABSENT if second == ABSENT else UNDECIDED
    if first in _SMALL:
        return HELD if second in _SMALL else LOST
    if second in _SMALL:
        return LOST
    return HELD if first == second else REVERSED


def _key(journals: Journals, pair: dict[str, Any]) -> tuple[str, str]:
    settings = journals.conditions
    first, second = (identity(settings.get(pair[f"condition_{side}"], {})) for side in ("a", "b"))
    return first, second


def _row(pair: dict[str, Any], other: dict[str, Any] | None) -> dict[str, Any]:
    row = {
        "cell": pair["cell"],
        "level_a": pair["level_a"],
        "level_b": pair["level_b"],
        "first_ratio": pair["time_ratio"],
        "first_verdict": pair["verdict"],
    }
    if other is None:
        return {**row, "held": held(pair["verdict"], ABSENT), "sentence": f"{_said(pair)}; not in the other study"}
    matched = words.is_missing(other["match"]) or other["match"]
    outcome = held(pair["verdict"], other["verdict"] if matched else ABSENT)
    change = statistics.welch(_interval(pair), _interval(other), pair["margin_ratio"])
    return {
        **row,
        "second_ratio": other["time_ratio"],
        "second_low": other["time_ratio_low"],
        "second_high": other["time_ratio_high"],
        "second_blocks_count": other["blocks_count"],
        "second_verdict": other["verdict"],
        "ratio_of_ratios": statistics.ratio(change.mean),
        "ratio_of_ratios_low": statistics.ratio(change.low),
        "ratio_of_ratios_high": statistics.ratio(change.high),
        "held": outcome,
        "sentence": f"{_said(pair)}; now {_said(other, short=True)}{'' if matched else ', but NOT MATCHED'}",
    }


def _interval(pair: dict[str, Any]) -> Interval:
    """What a row of the pairs table says of its log-ratios."""
    n, ratio = int(pair["blocks_count"]), pair["time_ratio"]
    return Interval(math.log(ratio) if n else math.nan, math.nan, math.nan, pair["paired_sd_log"], n)


def _said(pair: dict[str, Any], short: bool = False) -> str:
    if not pair["blocks_count"]:
        return "no common block" if short else f"{_names(pair)}: no common block"
    n, ratio = int(pair["blocks_count"]), words.ratio(pair["time_ratio"])
    said = f"{ratio}, {words.count(n, 'block')}, {pair['verdict']}"
    return said if short else f"{_names(pair)} was {said}"


def _names(pair: dict[str, Any]) -> str:
    where = f"{pair['cell']}: " if pair["cell"] else ""
    return f"{where}{pair['level_a']} ÷ {pair['level_b']}"
