"""paper.pdf by Typst, the LaTeX tables, ARTIFACT.md and CITATION.cff, all from one analysis.

Typst gets its texts as data (paper.json), never as markup, so that nothing in a record is executed or interpreted.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl

from analysis import method, plans, words
from analysis.artifact import write_artifact, write_citation
from analysis.figures.gallery import Drawing
from analysis.frames import records
from analysis.latex import write_latex
from analysis.load import Journals
from analysis.report import commands, machines, summary
from analysis.request import RequestError
from analysis.shown import COMPILED, ShownTable, all_tables
from analysis.tables import MEASURED, Tables

#: Rows of a table on paper; a LaTeX table has up to ten times as many, tables/*.csv every one.
MOST_ROWS = 60
MOST_SENTENCES = 24

#: What a figure may take on an A4 page with margins of 22 mm, in points.
TEXT_WIDTH_POINTS = 470.0
TEXT_HEIGHT_POINTS = 640.0

#: Letters of 8 and 9 pt in a figure become 6 and 7 pt, somewhat less than in the text.
FIGURE_SCALE = 0.78

NO_PAIRS = "There is no pair of conditions to compare."
NOTHING_MEASURED = "Nothing was measured; what was compiled for absent chips has a section of its own."

_TEMPLATE = Path(__file__).parent / "templates" / "paper.typ"


def require_typst() -> None:
    """Raises `RequestError` where the package that sets the paper is not installed."""
    try:
        import typst  # noqa: F401
    except ImportError:
        raise RequestError(
            "--paper needs Typst: pip install 'accelerator-study[paper]' (or pip install typst)."
        ) from None


def write_paper(journals: Journals, tables: Tables, drawings: list[Drawing], folder: Path) -> Path:
    """Everything for a paper into `folder`, where the analysis wrote tables/ and figures/. Returns paper.pdf.

    paper/ holds the source, paper.typ and paper.json: `typst compile --root . paper/paper.typ` sets it again.
    """
    write_latex(all_tables(tables, 10 * MOST_ROWS), folder / "tables")
    source = folder / "paper"
    source.mkdir(exist_ok=True)
    shutil.copyfile(_TEMPLATE, source / "paper.typ")
    text = json.dumps(content(journals, tables, drawings), indent=1, ensure_ascii=False)
    (source / "paper.json").write_text(text + "\n", encoding="utf-8", errors="replace")
    target = folder / "paper.pdf"
    target.write_bytes(_compile(source / "paper.typ", folder))
    write_citation(journals, folder / "CITATION.cff")
    write_artifact(journals, tables, folder)
    return target


def content(journals: Journals, tables: Tables, drawings: list[Drawing]) -> dict[str, Any]:
    """What the template sets, under the names that it uses. All values are texts, numbers or lists of them."""
    pairs, shown = records(tables.pairs), all_tables(tables, MOST_ROWS)
    done, planned = (int(tables.progress[f"{name}_trials_count"].sum()) for name in ("done", "planned"))
    return {
        "title": words.listed(session.study for session in journals.sessions) or words.listed(journals.folders),
        "no_answer": NO_PAIRS if len(tables.trials) or not len(tables.compiled) else NOTHING_MEASURED,
        "answer": [pair["sentence"] for pair in pairs[:MOST_SENTENCES]],
        "answer_rest": max(len(pairs) - MOST_SENTENCES, 0),
        "summary": summary(journals, tables, done, planned),
        "memory": list(filter(None, map(words.memory_sentence, pairs)))[:MOST_SENTENCES],
        "method": method.paragraphs(journals, tables),
        "measured": {
            "tables": [_plain(table) for table in shown if table.name != COMPILED],
            "figures": [_figure(drawing) for drawing in drawings if drawing.svg and drawing.evidence == MEASURED],
        },
        "compiled": {
            "sentences": plans.sentences(tables.plan_differences, tables.compiled_capacity)[:MOST_SENTENCES],
            "tables": [_plain(table) for table in shown if table.name == COMPILED],
            "figures": [_figure(drawing) for drawing in drawings if drawing.svg and drawing.evidence == COMPILED],
        },
        "not_drawn": [
            f"{one.question} {one.skipped}."
            for one in drawings
            if not one.svg and one.evidence == MEASURED and not one.section
        ],
        "machines": [[name, [[key, _fact(value)] for key, value in facts]] for name, facts in machines(journals)],
        "commands": commands(journals),
    }


def _compile(source: Path, root: Path) -> bytes:
    """The PDF. Only Typst's own fonts and matplotlib's DejaVu are used, so that the machine's fonts do not matter."""
    import typst

    fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
    made = typst.compile(str(source), root=str(root), font_paths=[str(fonts)], ignore_system_fonts=True, format="pdf")
    assert isinstance(made, bytes), "one PDF, not a page each"
    return made


def _plain(table: ShownTable) -> dict[str, Any]:
    rest = table.total - len(table.rows)
    more = f" {rest:,} further rows are in tables/{_csv(table.name)}.csv." if rest else ""
    lengths = [sum(len(row[place]) for row in table.rows) for place in range(len(table.columns))]
    return {**table._asdict(), "caption": table.caption + more, "widest": lengths.index(max(lengths))}


def _csv(name: str) -> str:
    return "outcomes" if name == "failures" else name


def _figure(drawing: Drawing) -> dict[str, Any]:
    """Its file seen from the study's folder, and a width at which it fits on the page."""
    assert drawing.svg is not None
    with drawing.svg.open(encoding="utf-8") as stream:
        size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', stream.read(2000))
    assert size is not None, f"{drawing.svg.name} states its size"
    width, height = float(size[1]), float(size[2])
    scale = min(FIGURE_SCALE, TEXT_WIDTH_POINTS / width, TEXT_HEIGHT_POINTS / height)
    return {
        "question": drawing.question,
        "file": f"/figures/{drawing.svg.name}",
        "width_points": round(width * scale, 2),
    }


def _fact(value: Any) -> str:
    return "not read" if value is None else str(value)
