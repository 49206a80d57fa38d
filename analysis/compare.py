"""`python -m analysis compare outputs/A outputs/B`: two studies side by side, such as two machines or two versions.

Exit status: 0; 1 with --fail-on-regression when something got slower or bigger beyond the margin or no longer ends ok,
with --fail-on-lost-finding when a finding of A is reversed or gone in B; 2 when the request is wrong, or when
--fail-on-regression had nothing to compare.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from analysis import across, words
from analysis.findings import LOST, NOTHING, REVERSED, findings
from analysis.frames import records
from analysis.load import read_journals
from analysis.request import answered
from analysis.tables import build_tables, write_csv

#: Lines of a list in the terminal; compare.md has all.
MOST_LINES = 20


@dataclass
class Comparison:
    """Two studies compared. `changed` names what differs between machines, versions and protocols."""

    first: across.Study
    second: across.Study
    differences: pd.DataFrame
    not_comparable: pd.DataFrame
    findings: pd.DataFrame
    changed: list[str]

    @property
    def regressions(self) -> int:
        """Conditions and quantities that got worse beyond the margin, and conditions that no longer end ok."""
        return int(self.differences["regression"].sum() + self.not_comparable["regression"].sum())

    @property
    def lost(self) -> int:
        """Findings that are reversed or gone."""
        return int(self.findings["held"].isin([LOST, REVERSED]).sum())


def main(arguments: list[str]) -> int:
    """The subcommand."""
    options = parser().parse_args(arguments)
    found = answered(lambda: _run(options))
    if found is None:
        return 2
    worse = options.fail_on_regression and found.regressions > 0
    gone = options.fail_on_lost_finding and found.lost > 0
    if not worse and not gone and options.fail_on_regression and found.differences.empty:
        print("analysis: nothing of the two studies could be compared: see Not comparable", file=sys.stderr)
        return 2
    return 1 if worse or gone else 0


def _run(options: argparse.Namespace) -> Comparison:
    found = compare(options.first.resolve(), options.second.resolve(), options.margin)
    target = options.output or Path(options.first).resolve().parent / f"compare-{found.first.name}+{found.second.name}"
    write(found, target)
    if not options.quiet:
        show(found, target, Console(highlight=False))
    return found


def compare(first: Path, second: Path, margin: float) -> Comparison:
    """Read both studies and set them side by side.

    Raises:
        RequestError: a folder is missing or holds no journal.
    """
    journals = [read_journals([folder]) for folder in (first, second)]
    tables = [build_tables(one, margin) for one in journals]
    one, other = (across.study(*pair) for pair in zip(journals, tables, strict=True))
    if one.name == other.name:
        one.name, other.name = f"{one.name} (first)", f"{other.name} (second)"
    return Comparison(
        first=one,
        second=other,
        differences=across.differences(one, other, margin),
        not_comparable=across.not_comparable(one, other),
        findings=findings((journals[0], tables[0].pairs), (journals[1], tables[1].pairs)),
        changed=across.changed_facts(one, other),
    )


def write(found: Comparison, folder: Path) -> None:
    """differences.csv, findings.csv, not_comparable.csv and compare.md into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("differences", "findings", "not_comparable"):
        write_csv(getattr(found, name), folder / f"{name}.csv")
    lines = [f"# {' '.join(f'{found.first.name} and {found.second.name}'.split())}", ""]
    for heading, items in sections(found):
        lines += [f"## {heading}", "", *(f"- {' '.join(item.split())}" for item in items), ""]
    (folder / "compare.md").write_text("\n".join(lines), encoding="utf-8", errors="replace")


def show(found: Comparison, target: Path, console: Console) -> None:
    """Print the sections, each cut after some twenty lines."""
    for heading, items in sections(found):
        console.print(Text(heading, style="bold"))
        for item in items[:MOST_LINES]:
            console.print(Text(f"• {item}"))
        if len(items) > MOST_LINES:
            console.print(f"… and {len(items) - MOST_LINES:,} more.")
    console.print(f"Written: {target}", soft_wrap=True, markup=False)


def sections(found: Comparison) -> list[tuple[str, list[str]]]:
    """(heading, sentences) of all that there is to say; sections without anything are left out."""
    rows = sorted(records(found.differences), key=lambda row: not row["regression"])
    stated = [row for row in records(found.findings) if row["held"] != NOTHING]
    left_out = [
        f"{side.name}: {words.count(side.left_out, 'trial')} of older versions or another machine"
        for side in (found.first, found.second)
        if side.left_out
    ]
    made = [
        ("Verdict", [_verdict(found)]),
        ("What changed between them", found.changed),
        ("The same conditions", [_sentence(row) for row in rows]),
        ("Findings", [f"{row['held']}: {row['sentence']}" for row in stated]),
        ("Not comparable", [f"{row['condition']}: {row['reason']}" for row in records(found.not_comparable)]),
        ("Left out", left_out),
    ]
    return [(heading, items) for heading, items in made if items]


def _verdict(found: Comparison) -> str:
    compared = found.differences["condition"].nunique()
    return (
        f"{words.count(compared, 'condition')} compared, {words.count(found.regressions, 'regression')}; "
        f"{words.count(found.lost, 'finding')} reversed or gone. The studies ran at different times: whatever else "
        "differed then, such as other load, is in the differences."
    )


def _sentence(row: dict[str, object]) -> str:
    ratio, low, high = (float(str(row[name])) for name in ("ratio", "ratio_low", "ratio_high"))
    what = str(row["metric"]).removesuffix("_seconds").removesuffix("_bytes").replace("_", " ")
    if low == low:
        interval = f" (95 % interval {words.ratio(low, ratio)}–{words.ratio(high, ratio)})"
    else:
        interval = "" if row["metric"] == across.PLANNED else " (no interval)"
    counts = f"n = {row['first_count']} and {row['second_count']}"
    worse = "REGRESSION: " if row["regression"] else ""
    return f"{worse}{row['condition']}: {what} × {words.ratio(ratio)}{interval}, {counts}: {row['verdict']}"


def parser() -> argparse.ArgumentParser:
    """The options. argparse itself exits with 2 for a wrong one."""
    from analysis.__main__ import margin

    parser = argparse.ArgumentParser(
        prog="python -m analysis compare",
        description="Set two studies side by side: the same conditions, B relative to A, and what cannot be compared.",
        epilog="Exit status: 0; 1 a regression or a lost finding, where that was asked for; "
        "2 the request is wrong, or a regression was asked for and nothing could be compared.",
    )
    parser.add_argument("first", type=Path, metavar="outputs/A", help="the study that is compared with")
    parser.add_argument("second", type=Path, metavar="outputs/B", help="the study that is compared")
    parser.add_argument("--margin", type=margin, default=0.02, help="what counts as equal in practice (default: 0.02)")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write (default: compare-A+B beside A)")
    parser.add_argument(
        "--fail-on-regression",
        action="store_true",
        help="status 1 when B is slower or bigger beyond the margin, or no longer ends ok",
    )
    parser.add_argument(
        "--fail-on-lost-finding", action="store_true", help="status 1 when a finding of A is reversed or gone in B"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser
