"""`python -m analysis outputs/NAME [outputs/OTHER …]`: rebuild tables, figures and report from the journals.

`python -m analysis compare outputs/A outputs/B` sets two studies side by side (`analysis.compare`).
`python -m analysis claims outputs/NAME` puts what is often said to the trials (`analysis.claims`).

Exit status: 0; 1 when a pair of conditions did not do the same work; 2 when the request is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis import processes
from analysis.request import RequestError, answered, holds_themes, journal_files, studies_in

if TYPE_CHECKING:
    from analysis.pipeline import Analysis


def main(arguments: list[str] | None = None) -> int:
    """The command. pandas and seaborn are imported after the request is understood."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["compare"]:
        from analysis.compare import main as compare

        return compare(arguments[1:])
    if arguments[:1] == ["claims"]:
        from analysis.claims.command import main as claims

        return claims(arguments[1:])
    options = parser().parse_args(arguments)
    if options.columns:
        from analysis.columns import as_markdown

        print(as_markdown(), end="")
        return 0
    if not options.folders:
        parser().error("name the folder of a study, such as outputs/NAME")
    folders = list(dict.fromkeys(Path(folder).resolve() for folder in options.folders))
    if any(map(holds_themes, folders)):
        return run_themes(folders, options)
    return run(folders, options)


def run_themes(folders: list[Path], options: argparse.Namespace) -> int:
    """Analyse every theme under each folder on its own, then the claims over all of a folder's themes."""
    from analysis.claims.command import run as settle

    statuses = []
    for folder in folders:
        themes = answered(partial(studies_in, folder))
        if themes is None:
            return 2
        for theme in themes:
            place = options.output and options.output / theme.name
            statuses.append(run([theme], argparse.Namespace(**{**vars(options), "output": place, "quiet": True})))
        if holds_themes(folder):
            statuses.append(settle([folder], options.output or folder, options.margin, options.quiet))
    return max(statuses)


def run(folders: list[Path], options: argparse.Namespace) -> int:
    """Analyse every folder on its own and, where there are several, all of them together."""
    # a notebook's backend in the environment is no business of ours, and may not be installed here
    os.environ["MPLBACKEND"] = "Agg"
    from analysis.terminal import show

    finished = answered(lambda: _analyse(folders, options))
    if finished is None:
        return 2
    if not options.quiet:
        show(finished[-1])
    return 1 if any(analysis.tables.mismatches for analysis in finished) else 0


def _analyse(folders: list[Path], options: argparse.Namespace) -> list[Analysis]:
    from analysis import mlflow_export
    from analysis.pipeline import analyse, combined_folder

    for folder in folders:
        journal_files(folder)
    if options.output and (options.output / "journal").exists() and [options.output.resolve()] != folders:
        raise RequestError(f"{options.output} is the folder of a study: name another place with --output DIR.")
    if len(folders) == 1:
        jobs = [(folders, options.output or folders[0])]
    else:
        jobs = [([folder], folder) for folder in folders]
        jobs.append((folders, options.output or combined_folder(folders)))
    finished = [analyse(*job, options.margin, options.paper) for job in jobs]
    if options.mlflow:
        mlflow_export.export(finished[-1].journals, finished[-1].tables.labels, options.mlflow)
    return finished


def parser() -> argparse.ArgumentParser:
    """The options. argparse itself exits with 2 for a wrong one."""
    parser = argparse.ArgumentParser(
        prog="python -m analysis",
        description="Rebuild trials.csv, tables/, figures/ and report.html of a study from its journals alone.",
        epilog="Several folders: each is rebuilt, and all of them together under --output. "
        "Exit status: 0; 1 a pair did not match; 2 the request is wrong.",
    )
    parser.add_argument("folders", nargs="*", metavar="outputs/NAME", help="folder of a study")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="DIR",
        help="where to write (default: the folder; several: combined-A+B beside them)",
    )
    parser.add_argument(
        "--margin", type=margin, default=0.02, help="ratios within ± this count as equal in practice (default: 0.02)"
    )
    parser.add_argument(
        "--paper", action="store_true", help="also paper.pdf, tables/*.tex, ARTIFACT.md and CITATION.cff (extra: paper)"
    )
    parser.add_argument(
        "--mlflow", metavar="URI", help="also log every trial as a run there, such as sqlite:///runs.db (extra: mlflow)"
    )
    parser.add_argument("--quiet", action="store_true", help="print nothing but errors")
    parser.add_argument("--columns", action="store_true", help="print the columns of trials.csv as Markdown and end")
    return parser


def margin(text: str) -> float:
    """A half-width of practical equality from the command line."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number between 0 and 1, such as 0.02")
    return value


if __name__ == "__main__":
    processes.allow()
    sys.exit(main())
