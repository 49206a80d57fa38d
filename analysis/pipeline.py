"""The whole analysis, as a table of contents: journals → tables → figures → report → paper."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from analysis.drawing import draw_all
from analysis.figures.gallery import Drawing
from analysis.load import Journals, read_journals
from analysis.paper import require_typst, write_paper
from analysis.report import write_report
from analysis.request import RequestError
from analysis.statistics import MARGIN
from analysis.tables import Tables, build_tables, write_tables


@dataclass
class Analysis:
    """One finished analysis: what was read, what came out, and where the report lies."""

    journals: Journals
    tables: Tables
    drawings: list[Drawing]
    report: Path
    paper: Path | None = None


def analyse(folders: list[Path], output: Path, margin: float = MARGIN, paper: bool = False) -> Analysis:
    """Rebuild everything under `output` from the journals of `folders` alone; `paper` adds what a publication needs.

    Raises:
        RequestError: a folder is missing or holds no journal, or the paper's typesetter is not installed.
    """
    if paper:
        require_typst()
    journals = read_journals(folders)
    tables = build_tables(journals, margin)
    drawings = draw_all(tables, output / "figures", lambda: write_tables(journals, tables, output))
    report = write_report(journals, tables, drawings, output / "report.html")
    printed = write_paper(journals, tables, drawings, output) if paper else None
    return Analysis(journals, tables, drawings, report, printed)


def combined_folder(folders: list[Path]) -> Path:
    """Where several studies are analysed together: beside the first, named after all.

    Raises:
        RequestError: that place is itself the folder of a study.
    """
    target = folders[0].parent / ("combined-" + "+".join(folder.name for folder in folders))
    if (target / "journal").exists():
        raise RequestError(f"{target} is the folder of a study: name another place with --output DIR.")
    return target
