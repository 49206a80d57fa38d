"""`python -m study --help`: groups with their levels, settings with their units, from conf/ and the schema."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from study import schema

USAGE = """\
Compose framework × device × allocation mode × workload, run every trial in a process of its own, compare.

  python -m study framework=jax                 one condition, its record as a table
  python -m study -m framework=jax,tf           a sweep: several blocks, compared pair by pair
  python -m study -m framework=jax,tf,tf_graph allocation=default,tcmalloc workload=elementwise
  python -m study +experiment=claims            what is often said of memory, put to the evidence of this machine
  python -m study study.dry_run=true …          list what would run, what has no meaning here and why
  python -m study modes [MODE]                  allocation modes: what each sets where, or why not
  python -m study --cfg job …                   print the composed configuration
  python -m analysis outputs/NAME               rebuild tables, figures and report from the journals
"""
AFTER = """\
A group takes a level (allocation=growth), a setting takes a value (workload.batch_size=64); with -m both take several,
separated by commas. Exit status: 0 answered, 1 a trial or a match failed, 2 wrong request, 130 interrupted.
Hydra's own flags are listed by --hydra-help; shell completion: eval "$(study -sc install=bash)".
"""


def show(console: Console) -> None:
    """Print the whole help."""
    console.print(USAGE, highlight=False, markup=False)
    console.print(_groups())
    console.print(_presets())
    console.print(_settings())
    console.print(AFTER, highlight=False, markup=False)


def levels(group: str) -> list[str]:
    """The levels of a group: the files of its folder under conf/, without the ending."""
    from study.__main__ import conf_folder

    return sorted(path.stem for path in (conf_folder() / group).glob("*.yaml"))


def _groups() -> Table:
    table = Table(title="Groups and their levels", title_justify="left")
    table.add_column("group")
    table.add_column("levels (default first)", overflow="fold")
    defaults = _default_levels()
    for group in schema.GROUPS:
        default = defaults.get(group, "")
        others = [level for level in levels(group) if level != default]
        table.add_row(group, ", ".join([default, *others]))
    return table


def _presets() -> Table:
    table = Table(title="Presets", title_justify="left")
    table.add_column("preset")
    table.add_column("the question", overflow="fold")
    for name, question in presets():
        table.add_row(f"+experiment={name}", question)
    return table


def presets() -> Iterator[tuple[str, str]]:
    """(name, question) of every preset: the first sentence of its file's comment."""
    from study.__main__ import conf_folder

    for name in levels("experiment"):
        text = (conf_folder() / "experiment" / f"{name}.yaml").read_text(encoding="utf-8")
        comment = " ".join(line[2:] for line in text.splitlines()[1:] if line.startswith("# "))
        yield name, re.split(r"(?<=[.?])\s", comment, maxsplit=1)[0]


def _settings() -> Table:
    table = Table(title="Settings", title_justify="left")
    for heading in ("setting", "default", "unit or range", "meaning"):
        table.add_column(heading, overflow="fold")
    for key, default, unit, meaning in rows():
        table.add_row(key, default, unit, meaning)
    return table


def rows() -> Iterator[tuple[str, str, str, str]]:
    """(setting, default, unit, meaning) of every setting a person may give."""
    for section in dataclasses.fields(schema.Settings):
        if section.default is not dataclasses.MISSING:
            yield section.name, _default(section.default), _unit(section), section.metadata["meaning"]
            continue
        part: Any = section.default_factory() if section.default_factory is not dataclasses.MISSING else None
        for one in dataclasses.fields(part):
            if one.name not in INTERNAL and not (one.name == "name" and section.name != "study"):
                yield (
                    f"{section.name}.{one.name}",
                    _default(getattr(part, one.name)),
                    _unit(one),
                    one.metadata["meaning"],
                )


#: A chip's data sheet: each of its settings stands in the chip's file, with its source.
CHIP_SHEET = {one.name for one in dataclasses.fields(schema.Chip)} - {"name"}
#: Filled by the level's file, or by the sweeper.
INTERNAL = {"frameworks", "oversubscribed", "sizes", "modes", "batch", "kind", "compile", *CHIP_SHEET}


def _default(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value == {} else str(value)


def _unit(one: dataclasses.Field[Any]) -> str:
    if isinstance(one.default, Enum):
        return " | ".join(str(member.value) for member in type(one.default))
    return str(one.metadata.get("unit", ""))


def _default_levels() -> dict[str, str]:
    import yaml

    from study.__main__ import conf_folder

    text = Path(conf_folder() / "config.yaml").read_text(encoding="utf-8")
    entries = [entry for entry in yaml.safe_load(text)["defaults"] if isinstance(entry, dict)]
    return {str(key): str(value) for entry in entries for key, value in entry.items() if not key.startswith("override")}
