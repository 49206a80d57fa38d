"""The summary in the terminal: a table of conditions, a sentence a comparison, and where the report lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from analysis import words
from analysis.frames import records
from analysis.pipeline import Analysis
from analysis.report import summary
from runners.records import OutcomeKind

#: More rows and sentences than these are in the report only.
MOST_CONDITIONS = 40
MOST_SENTENCES = 20


def show(analysis: Analysis, console: Console | None = None) -> None:
    """Print the analysis, for 80 columns and more."""
    console = console or Console(highlight=False)
    tables, journals = analysis.tables, analysis.journals
    if len(tables.conditions):
        console.print(conditions_table(records(tables.conditions.head(MOST_CONDITIONS))))
    _say_rest(console, len(tables.conditions), MOST_CONDITIONS, "conditions")
    done, planned = (int(tables.progress[f"{name}_trials_count"].sum()) for name in ("done", "planned"))
    for line in summary(journals, tables, done, planned):
        console.print(escape(line))
    for pair in records(tables.pairs.head(MOST_SENTENCES)):
        wrong = not words.is_missing(pair["match"]) and not pair["match"]
        console.print(f"• {escape(pair['sentence'])}", style="bold red" if wrong else "bold")
    _say_rest(console, len(tables.pairs), MOST_SENTENCES, "comparisons")
    if len(tables.warnings):
        number = words.count(len(tables.warnings), "warning")
        console.print(f"{number} about conditions: see the report or tables/warnings.csv.")
    console.print(f"Report: {escape(_near(analysis.report))}", soft_wrap=True)


def conditions_table(rows: list[dict[str, Any]]) -> Table:
    """One row a condition: outcomes, step time with its interval, throughput, compile time, peak above baseline."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("condition", overflow="fold", min_width=10)
    table.add_column("outcomes", overflow="fold", min_width=6)
    table.add_column("step time (ms)", justify="right", min_width=12)
    for heading in ("examples/s", "compile (s)", "peak above\nbaseline (MiB)"):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(
            escape(row["label"]),
            _outcomes(row),
            _step(row),
            _number(row["examples_per_second_harmonic_mean"]),
            _number(row["compile_seconds_mean"]),
            _number(row["host_peak_above_baseline_median_bytes"], words.MIB),
        )
    return table


def _outcomes(row: dict[str, Any]) -> str:
    counts = {kind.value: int(row[f"{kind.value}_count"]) for kind in OutcomeKind}
    parts = [f"{number} {kind}" for kind, number in counts.items() if number]
    return ", ".join(part if part.endswith(" ok") else f"[red]{part}[/]" for part in parts)


def _step(row: dict[str, Any]) -> str:
    """Mean and interval in ms, e.g. `3.91 (3.80–4.02)`; one launch says so."""
    if words.is_missing(row["step_seconds_mean"]):
        return "–"
    mean, low, high = (_number(row[f"step_seconds_{end}"], 1e-3) for end in ("mean", "low", "high"))
    return f"{mean}\n(n = 1)" if row["launches_count"] == 1 else f"{mean}\n({low}–{high})"


def _number(value: Any, unit: float = 1.0) -> str:
    return "–" if words.is_missing(value) else words.significant(float(value) / unit)


def _say_rest(console: Console, total: int, shown: int, what: str) -> None:
    if total > shown:
        console.print(f"… and {total - shown:,} more {what} in the report.")


def _near(path: Path) -> str:
    """The path as seen from the working directory, where it lies below it."""
    return os.path.relpath(path) if path.is_relative_to(Path.cwd()) else str(path)
