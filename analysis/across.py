"""Two studies side by side: the same conditions of both, and what cannot be compared and why."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import statistics, words
from analysis.load import Journals
from analysis.report import machines
from analysis.tables import MEASURED, Tables
from runners.records import OutcomeKind

#: Settings in which the same condition of two studies may differ: how long it was measured, and by which interpreter.
HOW_MEASURED = ("protocol", "evidence", "framework.python")

#: What is compared, with the words for less and for more of it. Planned bytes are the same every time.
METRICS = {
    "step_seconds": ("FASTER", "SLOWER"),
    "host_peak_above_baseline_bytes": ("SMALLER", "BIGGER"),
    "device_live_peak_bytes": ("SMALLER", "BIGGER"),
    "device_pool_peak_bytes": ("SMALLER", "BIGGER"),
    "process_peak_bytes": ("SMALLER", "BIGGER"),
    "planned_peak_bytes": ("SMALLER", "BIGGER"),
}
PLANNED = "planned_peak_bytes"

COLUMNS = ["condition", "metric", "first_mean", "second_mean", "first_count", "second_count", "ratio", "ratio_low"]
COLUMNS += ["ratio_high", "p_value", "equivalence_p_value", "beyond_p_value"]


@dataclass
class Study:
    """One side: its trials of the newest provenance only, by what identifies a condition in both studies."""

    name: str
    provenance: str
    trials: dict[str, pd.DataFrame]
    settings: dict[str, dict[str, Any]]
    labels: dict[str, str]
    facts: dict[str, Any]
    left_out: int


def study(journals: Journals, tables: Tables) -> Study:
    """The side that a study makes. Trials of an older provenance are counted and left out: they are never pooled."""
    sessions = {one.provenance_hash: one for one in journals.sessions}
    present = [name for name in sessions if (journals.trials["provenance_hash"] == name).any()]
    newest = present[-1] if present else next(iter(journals.trials["provenance_hash"]), "")
    chosen = journals.trials[journals.trials["provenance_hash"] == newest]
    keys = {condition: identity(settings) for condition, settings in journals.conditions.items()}
    groups = chosen.groupby(chosen["condition_id"].map(keys), sort=False)
    facts = next((facts for name, facts in machines(journals) if name == newest), [])
    return Study(
        name=words.listed(journals.folders),
        provenance=newest,
        trials=dict(iter(groups)),
        settings={keys[condition]: settings for condition, settings in journals.conditions.items()},
        labels={keys[condition]: tables.labels[condition] for condition in keys},
        facts=dict(facts),
        left_out=len(journals.trials) - len(chosen),
    )


def identity(settings: dict[str, Any]) -> str:
    """What makes a condition the same in two studies, as JSON: all settings but how it was measured."""
    return json.dumps({key: value for key, value in settings.items() if not _is_how(key)}, sort_keys=True, default=str)


def _is_how(key: str) -> bool:
    return key in HOW_MEASURED or key.startswith("protocol.")


def differences(first: Study, second: Study, margin: float) -> pd.DataFrame:
    """One row a condition and quantity that both measured: ratio second ÷ first of geometric means, with its interval.

    `regression` is true where the ratio is beyond 1 + margin with certainty (one-sided test, Holm over the table), and
    for planned bytes, which do not vary, where it simply is.
    """
    rows = [
        row
        for key in first.settings
        if key in first.trials and key in second.trials and not work_differs(first.trials[key], second.trials[key])
        for row in _rows(first, second, key, margin)
    ]
    table = pd.DataFrame(rows, columns=COLUMNS)
    for name in ("p_value", "equivalence_p_value", "beyond_p_value"):
        table[f"{name}_holm"] = statistics.holm(table[name].to_numpy(float))
    table["verdict"] = [_verdict(row) for row in table.itertuples(index=False)]
    planned = table["metric"] == PLANNED
    beyond = table["beyond_p_value_holm"] < statistics.ALPHA
    table["regression"] = beyond.where(~planned, table["ratio"] > 1 + margin).astype(bool)
    return table


def _rows(first: Study, second: Study, key: str, margin: float) -> Iterator[tuple[Any, ...]]:
    for metric in METRICS:
        samples = [np.log(_values(side.trials[key], metric)) for side in (first, second)]
        if all(len(sample) for sample in samples):
            one, other = (statistics.t_interval(sample) for sample in samples)
            found = statistics.welch(one, other, margin)
            if metric == PLANNED:
                found = statistics.Difference(found.mean, *[math.nan] * 5)
            ratio, low, high = (statistics.ratio(value) for value in found[:3])
            means = statistics.ratio(one.mean), statistics.ratio(other.mean)
            yield (first.labels[key], metric, *means, one.n, other.n, ratio, low, high, *found[3:])


def _values(trials: pd.DataFrame, metric: str) -> np.ndarray:
    """The positive values of the ok trials: measured ones, or for planned bytes compiled ones."""
    compiled = trials["evidence"] != MEASURED
    ok = trials[(trials["outcome"] == OutcomeKind.OK.value) & (compiled if metric == PLANNED else ~compiled)]
    values = ok[metric].dropna().to_numpy(float)
    return values[values > 0]


def _verdict(row: Any) -> str:
    less, more = METRICS[row.metric]
    if row.metric == PLANNED:
        return "EQUAL" if row.ratio == 1 else less if row.ratio < 1 else more
    n = min(row.first_count, row.second_count)
    word = statistics.verdict(math.log(row.ratio), n, row.p_value_holm, row.equivalence_p_value_holm)
    return {"FASTER": less, "SLOWER": more}.get(word, word)


def work_differs(one: pd.DataFrame, other: pd.DataFrame) -> str:
    """Why two groups of trials did not do the same work, in words; empty where nothing says so."""
    for column, noun in (("parameters", "parameters"), ("own_flops", "own FLOPs")):
        counts = [table[column].dropna().unique() for table in (one, other)]
        if all(len(found) for found in counts) and set(counts[0]) != set(counts[1]):
            return f"not the same work: {noun} {words.listed(counts[0])} → {words.listed(counts[1])}"
    return ""


def not_comparable(first: Study, second: Study) -> pd.DataFrame:
    """Conditions without a comparison of times, why, and whether that is a regression: it was ok, and is no more."""
    rows = []
    for key in dict.fromkeys([*first.settings, *second.settings]):
        label = first.labels.get(key) or second.labels[key]
        reason = _reason(first, second, key)
        if reason:
            rows.append((label, reason, _ended_ok(first, key) and _failed(second, key)))
    return pd.DataFrame(rows, columns=["condition", "reason", "regression"])


def _reason(first: Study, second: Study, key: str) -> str:
    for side, other in ((first, second), (second, first)):
        if key not in side.settings:
            return f"not in {side.name}{_nearest(other.settings[key], side)}"
    absent = [f"{side.name}: not run" for side in (first, second) if key not in side.trials]
    absent += [
        f"{side.name}: {_outcomes(side.trials[key])}"
        for side in (first, second)
        if key in side.trials and not _ended_ok(side, key)
    ]
    return "; ".join(absent) or work_differs(first.trials[key], second.trials[key])


def _nearest(settings: dict[str, Any], side: Study) -> str:
    """The condition of the other side that differs in the fewest settings, and in which."""
    if not side.settings:
        return ""
    apart = [
        [(key, settings.get(key), one.get(key)) for key in {**settings, **one} if settings.get(key) != one.get(key)]
        for one in side.settings.values()
    ]
    closest = min(([part for part in parts if not _is_how(part[0])] for parts in apart), key=len)
    said = [f"{key} {words.listed([here])}, there {words.listed([there])}" for key, here, there in closest[:3]]
    return f" (the nearest there differs in {'; '.join(said)})"


def _ended_ok(side: Study, key: str) -> bool:
    return key in side.trials and bool((side.trials[key]["outcome"] == OutcomeKind.OK.value).any())


def _failed(side: Study, key: str) -> bool:
    """Whether it was tried and never ended ok; a machine that lacks the device or the mode is no regression."""
    harmless = [OutcomeKind.NOT_APPLICABLE.value, OutcomeKind.UNAVAILABLE.value]
    return key in side.trials and not _ended_ok(side, key) and not side.trials[key]["outcome"].isin(harmless).all()


def _outcomes(trials: pd.DataFrame) -> str:
    counts = trials["outcome"].value_counts(sort=False)
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


def changed_facts(first: Study, second: Study) -> list[str]:
    """What differs between the machines, versions and protocols of the two, in words."""
    found = []
    for key in dict.fromkeys([*first.facts, *second.facts]):
        here, there = first.facts.get(key), second.facts.get(key)
        if here != there:
            found.append(f"{key}: {words.listed([here])} → {words.listed([there])}")
    for key in dict.fromkeys(key for side in (first, second) for one in side.settings.values() for key in one):
        levels = [words.listed(one.get(key) for one in side.settings.values()) for side in (first, second)]
        if _is_how(key) and levels[0] != levels[1]:
            found.append(f"{key}: {levels[0]} → {levels[1]}")
    return found
