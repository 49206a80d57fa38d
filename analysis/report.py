"""report.html: one self-contained file, the answer first. It places text, tables and figures and computes nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from analysis import capacity, modelled, plans, words
from analysis.figures.gallery import Drawing
from analysis.frames import is_mixed, records
from analysis.load import Journals
from analysis.tables import COMPILED, MEASURED, MODELLED, Tables

#: Longer tables are cut in the report; tables/*.csv have every row.
MOST_ROWS = 500

#: Size of a figure on the page: its letters of 8 and 9 pt become 12 and 14 px.
PIXELS_PER_POINT = 1.5

#: On a narrow screen a figure shrinks by this factor at most and scrolls from there on: letters stay at 9 px.
LEAST_SCALE = 0.75


def write_report(journals: Journals, tables: Tables, drawings: list[Drawing], path: Path) -> Path:
    """The report. Everything that comes from records is escaped by the template."""
    page = template_environment().get_template("report.html.j2").render(**context(journals, tables, drawings))
    path.write_text(page, encoding="utf-8", errors="replace")
    return path


def template_environment() -> jinja2.Environment:
    """The templates, which escape all they are given, with numbers in words as filters."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("analysis"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        ms=words.milliseconds,
        seconds=words.seconds,
        mib=words.mebibytes,
        number=_number,
        share=_share,
        missing=words.is_missing,
    )
    return environment


def context(journals: Journals, tables: Tables, drawings: list[Drawing]) -> dict[str, Any]:
    """What the template shows, under the names that it uses."""
    done = int(tables.progress["done_trials_count"].sum())
    planned = int(tables.progress["planned_trials_count"].sum())
    pairs = records(tables.pairs)
    return {
        "title": ", ".join(dict.fromkeys(session.study for session in journals.sessions))
        or ", ".join(journals.folders),
        "summary": summary(journals, tables, done, planned),
        "pairs": pairs[:MOST_ROWS],
        "pairs_total": len(pairs),
        "memory_sentences": [text for pair in pairs[:MOST_ROWS] if (text := words.memory_sentence(pair))],
        "common_cells": records(tables.common_cells[tables.common_cells["common_cells_count"] > 1]),
        "several_provenances": is_mixed(tables.conditions["provenance_hash"]),
        "conditions": _rows(tables.conditions),
        "conditions_total": len(tables.conditions),
        "compiled": _rows(tables.compiled),
        "waterfall": _rows(tables.waterfall),
        "waterfall_total": len(tables.waterfall),
        "warnings": _rows(tables.warnings),
        "warnings_total": len(tables.warnings),
        "failures": _rows(tables.outcomes[tables.outcomes["outcome"] != "ok"]),
        "not_run": _rows(tables.progress[tables.progress["missing_trials_count"] > 0]),
        "superseded": _rows(tables.superseded),
        "bad_lines": _rows(tables.bad_lines),
        "duplicates": journals.duplicates,
        "figures": [(one, inline_svg(one)) for one in drawings if one.evidence == MEASURED and not one.section],
        "tenants": _rows(tables.tenants),
        "companies": _rows(tables.colocation),
        "companies_total": len(tables.colocation),
        "sharing_figures": [(one, inline_svg(one)) for one in drawings if one.section == "sharing" and one.svg],
        "compiled_figures": [(one, inline_svg(one)) for one in drawings if one.evidence == COMPILED and one.svg],
        "modelled": _rows(tables.modelled),
        "modelled_total": len(tables.modelled),
        "modelled_parameters": modelled.PARAMETERS,
        "modelled_figures": [(one, inline_svg(one)) for one in drawings if one.evidence == MODELLED and one.svg],
        "plan_sentences": plans.sentences(tables.plan_differences, tables.compiled_capacity)[:MOST_ROWS],
        "plan_differences": _rows(tables.plan_differences),
        "capacity_sentences": [capacity.sentence(row) for row in _rows(tables.measured_capacity)],
        "certificate": _rows(tables.certificate),
        "certificate_total": len(tables.certificate),
        "machines": machines(journals),
        "commands": commands(journals),
        "most_rows": MOST_ROWS,
    }


def summary(journals: Journals, tables: Tables, done: int, planned: int) -> list[str]:
    """The first sentences: how much is done, how it ended, and what limits the answer."""
    trials = journals.trials
    lines = [
        f"{done:,} of {planned:,} planned trials are done." if planned else f"{words.count(len(trials), 'trial')}."
    ]
    counts = trials["outcome"].value_counts(sort=False)
    if len(counts):
        lines.append("They ended " + ", ".join(f"{kind}: {number:,}" for kind, number in counts.items()) + ".")
    else:
        lines.append("No trial has been recorded yet: there is nothing to compare.")
    provenances = trials["provenance_hash"].nunique()
    if provenances > 1:
        lines.append(
            f"The trials come from {provenances} different machines or sets of versions. They are never pooled: every "
            "row below belongs to one of them."
        )
    if tables.mismatches:
        lines.append(f"{words.count(tables.mismatches, 'pair')} did not do the same work: see the match certificate.")
    if len(journals.bad_lines):
        bad = words.count(len(journals.bad_lines), "journal line")
        lines.append(f"{bad} could not be read as written: see tables/bad_lines.csv.")
    return lines


def machines(journals: Journals) -> list[tuple[str, list[tuple[str, Any]]]]:
    """(provenance hash, its facts as dotted name and value), each provenance once."""
    found = {session.provenance_hash: session.provenance for session in journals.sessions}
    return [(name, list(_flat(facts))) for name, facts in found.items()]


def commands(journals: Journals) -> list[str]:
    """The commands that the designs were made by, each once, in order."""
    return list(dict.fromkeys(str(s.design["command"]) for s in journals.sessions if s.design.get("command")))


def inline_svg(drawing: Drawing) -> str:
    """The figure's SVG element, its ids made unique within a page; empty where it was skipped."""
    if drawing.svg is None:
        return ""
    text = drawing.svg.read_text(encoding="utf-8")
    text = text[text.index("<svg") :]
    prefix = drawing.name
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = text.replace("url(#", f"url(#{prefix}-")
    return re.sub(r'<svg ([^>]*?)width="([\d.]+)pt" height="[\d.]+pt"|<svg ', _sized, text, count=1)


def _sized(found: re.Match[str]) -> str:
    """The opening tag with widths in px instead of pt: letters are then of one size in all figures."""
    width = float(found[2] or 0) * PIXELS_PER_POINT
    size = f' style="width:{width:.0f}px;min-width:{width * LEAST_SCALE:.0f}px"' if found[2] else ""
    return f'<svg role="img"{size} {found[1] or ""}'


def _flat(facts: Any, prefix: str = "") -> Any:
    if isinstance(facts, dict) and facts:
        for key, value in facts.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, ", ".join(map(str, facts)) if isinstance(facts, list) else facts


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    return records(table.head(MOST_ROWS))


def _number(value: Any) -> str:
    return "" if words.is_missing(value) else words.significant(float(value))


def _share(value: Any) -> str:
    return "" if words.is_missing(value) else f"{float(value):.1%}"
