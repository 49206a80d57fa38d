"""The tables of the paper: headings and cells as they are read. LaTeX and Typst get the same ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import pandas as pd

from analysis import words
from analysis.frames import is_mixed, records
from analysis.tables import MEASURED, Tables

#: The table whose rows nothing measured.
COMPILED = "compiled"


class ShownTable(NamedTuple):
    """A table of texts. `columns` are headings, `numeric` tells which are set to the right; `total` counts all rows."""

    name: str
    caption: str
    columns: list[str]
    numeric: list[bool]
    rows: list[list[str]]
    total: int


def all_tables(tables: Tables, most_rows: int) -> list[ShownTable]:
    """The tables that have rows, each cut after `most_rows`. Compiled results are never in a measured table."""
    measured = tables.outcomes["evidence"] == MEASURED
    made = [
        _conditions(tables.conditions, most_rows),
        _pairs(tables.pairs, most_rows),
        _failures(tables.outcomes[measured & (tables.outcomes["outcome"] != "ok")], most_rows),
        _warnings(tables.warnings, most_rows),
        _compiled(tables.compiled, most_rows),
    ]
    return [table for table in made if table.rows]


def _conditions(table: pd.DataFrame, most: int) -> ShownTable:
    columns = {
        "condition": lambda row: row["label"],
        "#n": lambda row: str(row["launches_count"]),
        "#not ok": lambda row: str(row["attempts_count"] - row["ok_count"]),
        "#step (ms)": lambda row: _number(row["step_seconds_mean"], 1e-3),
        "#95 % interval": lambda row: _interval(row["step_seconds_low"], row["step_seconds_high"], 1e-3),
        "#examples/s": lambda row: _number(row["examples_per_second_harmonic_mean"]),
        "#compile (s)": lambda row: _number(row["compile_seconds_mean"]),
        "#host peak (MiB)": lambda row: _number(row["host_peak_above_baseline_median_bytes"], words.MIB),
        "#live peak (MiB)": lambda row: _number(row["device_live_peak_median_bytes"], words.MIB),
    }
    caption = (
        "Conditions. Arithmetic mean of step times over n launches with its t interval (on the log scale), harmonic "
        "mean of throughput, mean compile time, median host peak above baseline and median peak of live bytes on the "
        "device."
    )
    return _table("conditions", caption, table, columns, most)


def _pairs(table: pd.DataFrame, most: int) -> ShownTable:
    columns = {
        "comparison": lambda row: f"{row['level_a']} ÷ {row['level_b']}{' — ' if row['cell'] else ''}{row['cell']}",
        "#time ratio": lambda row: _number(row["time_ratio"]),
        "#95 % interval": lambda row: _interval(row["time_ratio_low"], row["time_ratio_high"]),
        "#blocks": lambda row: str(row["blocks_count"]),
        "verdict": lambda row: row["verdict"],
        "#p": lambda row: _p(row["p_value_holm"]),
        "#p equal": lambda row: _p(row["equivalence_p_value_holm"]),
        "match": _match,
    }
    caption = (
        "Comparisons. Ratio of step times (below 1: the first takes less time), its t interval over blocks, and "
        "Holm-adjusted p values of the tests for a difference and for equality in practice."
    )
    return _table("pairs", caption, table, columns, most)


def _failures(table: pd.DataFrame, most: int) -> ShownTable:
    columns = {
        "condition": lambda row: row["label"],
        "outcome": lambda row: row["outcome"],
        "phase": lambda row: _text(row["phase"]),
        "#trials": lambda row: str(row["trials_count"]),
        "reason": lambda row: _text(row["reason"]),
    }
    return _table("failures", "Trials that did not end ok, and why.", table, columns, most)


def _warnings(table: pd.DataFrame, most: int) -> ShownTable:
    columns = {
        "condition": lambda row: row["label"],
        "warning": lambda row: row["warning"],
        "what was seen": lambda row: row["text"],
    }
    caption = "Warnings: reasons to read a condition's numbers with care. Nothing was dropped because of them."
    return _table("warnings", caption, table, columns, most)


def _compiled(table: pd.DataFrame, most: int) -> ShownTable:
    columns = {
        "condition": lambda row: row["label"],
        "chip": lambda row: _text(row["chip"]),
        "outcome": lambda row: row["outcome"],
        "#planned peak (MiB)": lambda row: _number(row["planned_peak_bytes"], words.MIB),
        "#temporaries (MiB)": lambda row: _number(row["planned_temp_bytes"], words.MIB),
        "#usable (MiB)": lambda row: _number(row["usable_bytes"], words.MIB),
        "#predicted step (ms)": lambda row: _number(row["predicted_step_seconds"], 1e-3),
    }
    return _table(COMPILED, "Compiled, not measured: what a compiler planned for an absent chip.", table, columns, most)


def _table(name: str, caption: str, table: pd.DataFrame, columns: dict[str, Any], most: int) -> ShownTable:
    """Cells of `table` by `columns` (heading → row to text; # marks numbers), the provenance first where several."""
    if len(table) and "provenance_hash" in table and is_mixed(table["provenance_hash"]):
        columns = {"machine": lambda row: row["provenance_hash"][:8], **columns}
    rows = [[cell(row) for cell in columns.values()] for row in records(table.head(most))]
    headings = [heading.lstrip("#") for heading in columns]
    return ShownTable(name, caption, headings, [heading.startswith("#") for heading in columns], rows, len(table))


def _number(value: Any, unit: float = 1.0) -> str:
    return "" if words.is_missing(value) else words.significant(float(value) / unit)


def _interval(low: Any, high: Any, unit: float = 1.0) -> str:
    return "" if words.is_missing(low) or words.is_missing(high) else f"{_number(low, unit)}–{_number(high, unit)}"


def _p(value: Any) -> str:
    return "" if words.is_missing(value) else "< 0.0001" if value < 1e-4 else f"{value:.2g}"


def _text(value: Any) -> str:
    return "" if words.is_missing(value) else str(value)


def _match(row: dict[str, Any]) -> str:
    return "not checked" if words.is_missing(row["match"]) else "yes" if row["match"] else "NO"
