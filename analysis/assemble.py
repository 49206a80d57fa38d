"""Rows of all journals → one table: which attempts count, which conditions are one, which settings become columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from analysis.columns import COLUMNS, HIDDEN, column_of
from analysis.factors import ALONE, differing
from analysis.frames import is_mixed
from runners.records import OutcomeKind, SessionRecord


def choose_attempts(table: pd.DataFrame) -> np.ndarray:
    """Which of several records of one trial count, as booleans: the latest that ended ok, else the latest.

    A retry that ended ok replaces the failures before it; a trial that is done is not undone by a later failure. A
    second ok comes about where a whole group was run again under other versions, and then belongs to that group.
    Tenants are chosen together: the latest run of their company in which all ended ok, else the latest complete one.
    """
    key = ["_folder", "trial_id"]
    chosen = np.ones(len(table), dtype=bool)
    repeated = table[table.duplicated(key, keep=False)].sort_values("_started", kind="stable")
    for _, attempts in repeated.groupby(key, sort=False):
        good = attempts.index[attempts["outcome"] == OutcomeKind.OK.value]
        best = good[-1] if len(good) else attempts.index[-1]
        chosen[attempts.index[attempts.index != best]] = False
    for _, attempts in table[table["_tenancy"].notna()].groupby(["_folder", "_tenancy"], sort=False):
        if is_mixed(attempts["session_id"]):
            chosen[attempts.index] = attempts["session_id"] == _best_run(attempts)
    return chosen


def _best_run(attempts: pd.DataFrame) -> str:
    """The session whose run of a company counts; a session runs a company once."""
    runs = attempts.groupby("session_id", sort=False).agg(
        ok=("outcome", lambda outcomes: (outcomes == OutcomeKind.OK.value).all()),
        records=("trial_id", "nunique"),
        tenants=("_tenants", "max"),
        started=("_started", "max"),
    )
    complete = runs["records"] == runs["tenants"]
    ranked = runs.assign(whole=complete & runs["ok"], complete=complete)
    return str(ranked.sort_values(["whole", "complete", "started"], kind="stable").index[-1])


def designed_conditions(sessions: list[SessionRecord]) -> dict[str, dict[str, Any]]:
    """Condition id → settings of every condition that a design names with its settings, run or not."""
    entries = (entry for session in sessions for entry in session.design.get("conditions") or [])
    named = [entry for entry in entries if isinstance(entry, dict)]
    return {
        str(e["condition_id"]): {"replicate": e.get("replicate"), **ALONE, **(e.get("settings") or {})} for e in named
    }


def join_replicates(conditions: dict[str, dict[str, Any]]) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Conditions without their replicate number, equal ones once; and every id → the id of the first equal one."""
    distinct: dict[str, dict[str, Any]] = {}
    first: dict[str, str] = {}
    canonical = {}
    for condition, settings in conditions.items():
        bare = {key: value for key, value in settings.items() if key != "replicate"}
        canonical[condition] = first.setdefault(repr(sorted(bare.items())), condition)
        distinct.setdefault(canonical[condition], bare)
    return distinct, canonical


def swept_settings(sessions: list[SessionRecord], conditions: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Setting → column of every swept setting that is no column yet: the designs' factors.

    Without any design (its line was lost), every setting that differs between conditions counts as swept.
    """
    factors = [str(factor) for session in sessions for factor in session.design.get("factors") or {}]
    names = [name for name in (factors if sessions else differing(conditions)) if name != "replicate"]
    known = {column.name for column in COLUMNS}
    return {name: column_of(name) for name in dict.fromkeys(names) if column_of(name) not in known}


def with_settings(table: pd.DataFrame, conditions: dict[str, dict[str, Any]], swept: dict[str, str]) -> pd.DataFrame:
    """The table in its documented order, swept settings as columns at the end, and the hidden `_folder` last."""
    columns = {name: table[name] for name in (column.name for column in COLUMNS)}
    for setting, column in swept.items():
        levels = [conditions[condition].get(setting) for condition in table["condition_id"]]
        columns[column] = pd.Series(setting_array(levels), index=table.index)
    return pd.DataFrame({**columns, **{column.name: table[column.name] for column in HIDDEN}})


def setting_array(levels: list[Any]) -> Any:
    """Levels as Int64, float64 or boolean where all are such, else as the strings that they are; null stays missing."""
    kinds = {type(level) for level in levels if level is not None}
    if kinds == {bool}:
        return pd.array(levels, dtype="boolean")
    if kinds == {int} and all(level is None or abs(level) < 2**63 for level in levels):
        return pd.array(levels, dtype="Int64")
    if kinds and kinds <= {int, float}:
        return np.array([np.nan if level is None else float(level) for level in levels])
    return pd.array([level if level is None else _shown(level) for level in levels], dtype="str")


def _shown(level: Any) -> str:
    return str(level).lower() if isinstance(level, bool) else str(level)
