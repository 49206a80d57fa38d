"""Finds the figures, draws those that have data, and saves each as SVG, PDF and PNG, the same bytes every time."""

from __future__ import annotations

import functools
import importlib
import itertools
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from matplotlib.figure import Figure

from analysis import figures
from analysis.figures import style
from analysis.tables import Tables

#: What each backend would write of its own accord: dates and its version, which differ between runs.
METADATA: dict[str, dict[str, None]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "ModDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}


PADDING_INCHES = 0.12

#: How the files begin that hold the tables for further processes, while these draw.
TABLES = ".tables-"

#: How a table that may be empty is said, where its name is no words.
SAID = {
    "measured_capacity": "trials that searched for the largest batch",
    "compiled_capacity": "compiled trials with a batch",
    "compiled": "compiled trials",
    "plan_differences": "plans of two frameworks to compare",
    "timelines": "plans that tell their live bytes",
    "modelled": "plans to replay",
    "tenants": "trials that shared a device",
}


@dataclass(frozen=True)
class Drawing:
    """A figure's name and question, and the SVG it was saved as, or the reason why there is none.

    `section` is the section of the report that it belongs to; empty for the figures of every study.
    """

    name: str
    question: str
    svg: Path | None
    skipped: str = ""
    evidence: str = "measured"
    section: str = ""


@functools.cache
def discover() -> tuple[ModuleType, ...]:
    """All figure modules (those with a QUESTION), by their ORDER and name."""
    files = [info.name for info in pkgutil.iter_modules(figures.__path__)]
    modules = [importlib.import_module(f"{figures.__name__}.{name}") for name in files]
    found = [module for module in modules if hasattr(module, "QUESTION")]
    return tuple(sorted(found, key=lambda module: (module.ORDER, module.__name__)))


def named() -> dict[str, ModuleType]:
    """Name of a figure and of its files → its module, in the order in which they are shown."""
    return {module.__name__.rpartition(".")[2]: module for module in discover()}


def clear(folder: Path) -> None:
    """Make `folder`, without the figures of an earlier analysis; files of any other name stay."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, kind in itertools.product(named(), METADATA):
        (folder / f"{name}.{kind}").unlink(missing_ok=True)
    for left in folder.glob(f"{TABLES}*"):
        left.unlink(missing_ok=True)


def missing_data(module: ModuleType, tables: Tables) -> str:
    """Why a figure cannot be drawn, in words; empty where it can."""
    table = getattr(tables, module.TABLE)
    if table.empty:
        return f"there are no {SAID.get(module.TABLE, module.TABLE)}"
    empty = [name for name in module.COLUMNS if name not in table or table[name].isna().all()]
    if empty:
        return f"no row of {module.TABLE} has {', '.join(empty)}"
    lacking: str = module.lacking(tables) if hasattr(module, "lacking") else ""
    return lacking


def draw(module: ModuleType, tables: Tables) -> Figure:
    """One figure in the house style."""
    with style.applied():
        return module.draw(tables)


def draw_one(name: str, tables: Tables, folder: Path) -> Drawing:
    """The figure of this name into `folder`, where it has data."""
    module = named()[name]
    evidence, section = getattr(module, "EVIDENCE", "measured"), getattr(module, "SECTION", "")
    reason = missing_data(module, tables)
    if reason:
        return Drawing(name, module.QUESTION, None, reason, evidence, section)
    with style.applied():
        figure = module.draw(tables)
        # what is drawn is measured once: asked for a tight box, savefig would draw everything twice for each format
        box = figure.get_tightbbox(figure.canvas.get_renderer()).padded(PADDING_INCHES)
        for kind, metadata in METADATA.items():
            figure.savefig(folder / f"{name}.{kind}", metadata=metadata, dpi=144, bbox_inches=box)
    return Drawing(name, module.QUESTION, folder / f"{name}.svg", evidence=evidence, section=section)
