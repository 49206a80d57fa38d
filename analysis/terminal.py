"""The summary in the terminal: a table of conditions, a sentence a comparison, and where the report lies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from analysis import words
from analysis.frames import records
from analysis.pipeline import Analysis
from analysis.report import summary
from runners.records import OutcomeKind

#: More rows, and more lines of sentences, than these are in the report only.
MOST_CONDITIONS = 40
MOST_LINES = 12

#: Outcomes that are too long for a column of 80 characters.
SHORT_OUTCOMES = {OutcomeKind.NOT_APPLICABLE: "n/a"}


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
    _say_pairs(console, records(tables.pairs))
    for line in tables.tenants["sentence"].head(MOST_LINES):
        console.print(Text(f"• {line}"))
    _say_rest(console, len(tables.tenants), MOST_LINES, "tenants")
    if len(tables.warnings):
        number = words.count(len(tables.warnings), "warning")
        console.print(f"{number} about conditions: see the report or tables/warnings.csv.")
    console.print(f"Report: {escape(_near(analysis.report))}", soft_wrap=True)
    if analysis.paper:
        console.print(f"Paper: {escape(_near(analysis.paper))}", soft_wrap=True)
    elif (analysis.report.parent / "paper.pdf").exists():
        console.print("paper.pdf is of an earlier analysis: --paper makes it anew.")


def _say_pairs(console: Console, pairs: list[dict[str, Any]]) -> None:
    """As many comparisons as a dozen lines hold: first those that did not match, last those that have no value."""
    ordered = sorted(pairs, key=lambda pair: (not _is_wrong(pair), not pair["blocks_count"]))
    lines = shown = 0
    for pair in ordered:
        sentence = Text(f"• {pair['sentence']}", style="bold red" if _is_wrong(pair) else "bold")
        lines += len(sentence.wrap(console, console.width))
        if shown and lines > MOST_LINES:
            break
        console.print(sentence)
        shown += 1
    _say_rest(console, len(pairs), shown, "comparisons")


def _is_wrong(pair: dict[str, Any]) -> bool:
    return not words.is_missing(pair["match"]) and not pair["match"]


def conditions_table(rows: list[dict[str, Any]]) -> Table:
    """One row a condition: outcomes, step time with its interval, throughput, compile time, peak above baseline."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", show_edge=False)
    table.add_column("condition", overflow="fold", min_width=10)
    table.add_column("outcomes", overflow="fold", min_width=_longest_word(rows))
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
    """Such as `4 ok, 1 oom`; what is no answer in red."""
    parts = []
    for kind in OutcomeKind:
        if number := int(row[f"{kind.value}_count"]):
            text = f"{number} {SHORT_OUTCOMES.get(kind, kind.value)}"
            parts.append(text if kind in (OutcomeKind.OK, OutcomeKind.NOT_APPLICABLE) else f"[red]{text}[/]")
    return ", ".join(parts)


def _longest_word(rows: list[dict[str, Any]]) -> int:
    """Characters of the longest outcome that occurs, so that none is broken inside; a comma may follow it."""
    present = [kind for kind in OutcomeKind if any(row[f"{kind.value}_count"] > 0 for row in rows)]
    return max((len(SHORT_OUTCOMES.get(kind, kind.value)) + 1 for kind in present), default=6)


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
