"""claims.html: the table of claims as one self-contained page, with a link to every theme's own report."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.frames import records
from analysis.report import template_environment


def write_page(table: pd.DataFrame, themes: Sequence[Path], path: Path) -> Path:
    """The page; `themes` are the folders of the studies that were read. Everything is escaped by the template."""
    reports = [(one.name, _near(one / "report.html", path)) for one in themes]
    shown = [(name, link) for name, link in reports if link]
    page = template_environment().get_template("claims.html.j2").render(claims=records(table), reports=shown)
    path.write_text(page, encoding="utf-8", errors="replace")
    return path


def _near(report: Path, page: Path) -> str:
    """The report as the page links to it; empty where it is not there, or not below the page's folder."""
    return str(report.relative_to(page.parent)) if report.exists() and report.is_relative_to(page.parent) else ""
