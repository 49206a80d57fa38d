"""`python -m analysis claims outputs/NAME [outputs/OTHER …]`: the claims, put to the trials of studies."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from rich.text import Text

from analysis.claims import answers
from analysis.claims.evidence import Evidence
from analysis.claims.page import write_page
from analysis.claims.table import claims_table
from analysis.frames import records
from analysis.load import read_journals
from analysis.request import answered, studies_in
from analysis.statistics import MARGIN
from analysis.tables import write_csv

STYLES = {"supported": "green", "refuted": "red", "depends": "yellow", "not testable here": "dim"}


def main(arguments: list[str]) -> int:
    """The command. Exit status: 0; 2 when the request is wrong. No verdict is a failure."""
    options = _parser().parse_args(arguments)
    folders = list(dict.fromkeys(Path(folder).resolve() for folder in options.folders))
    return run(folders, options.output or folders[0], options.margin, options.quiet)


def run(folders: list[Path], output: Path, margin: float, quiet: bool) -> int:
    """Settle the claims over the studies in these folders, and show them. The exit status."""
    table = answered(lambda: settle([theme for one in folders for theme in studies_in(one)], output, margin))
    if table is None:
        return 2
    if not quiet:
        show(table, output, Console(highlight=False))
    return 0


def settle(themes: list[Path], output: Path, margin: float) -> pd.DataFrame:
    """Put every claim to the trials of `themes`; write tables/claims.csv and claims.html under `output`."""
    evidence = Evidence(read_journals(themes), margin)
    table = claims_table(answers(evidence), evidence)
    (output / "tables").mkdir(parents=True, exist_ok=True)
    write_csv(table, output / "tables" / "claims.csv")
    write_page(table, themes, output / "claims.html")
    return table


def show(table: pd.DataFrame, output: Path, console: Console) -> None:
    """The table for a terminal of 80 columns and more."""
    shown = Table(title="What is said, and what the evidence says", title_justify="left", show_lines=True)
    shown.add_column("", no_wrap=True)
    shown.add_column("claim", ratio=3)
    shown.add_column("verdict", ratio=2)
    shown.add_column("found", ratio=4)
    for row in records(table):
        verdict = Text(row["verdict"], style=STYLES[row["verdict"]])
        if row["depends_on"]:
            verdict.append(f" on {row['depends_on']}", style="default")
        found = f"{row['found']} [{row['evidence']}]" if row["evidence"] else f"needs {row['needs']}"
        shown.add_row(row["claim"], Text(row["statement"]), verdict, Text(found))
    console.print(shown)
    console.print(f"Rules and sources: {output / 'claims.html'}, {output / 'tables' / 'claims.csv'}", soft_wrap=True)


def _parser() -> argparse.ArgumentParser:
    from analysis.__main__ import margin

    parser = argparse.ArgumentParser(
        prog="python -m analysis claims",
        description="Put what is often said of JAX's and TensorFlow's memory to the trials of studies.",
    )
    parser.add_argument("folders", nargs="+", metavar="outputs/NAME", help="a study, or a folder of themes")
    parser.add_argument("--output", type=Path, metavar="DIR", help="where to write (default: the first folder)")
    parser.add_argument("--margin", type=margin, default=MARGIN, help="ratios within ± this count as equal (0.02)")
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    return parser
