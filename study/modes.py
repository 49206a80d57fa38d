"""`study modes`: the matrix of allocation modes as a table, readable in 80 columns, or as JSON."""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import asdict
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from runners.probes.mechanism import MECHANISMS
from study.errors import EXIT_OK, EXIT_REQUEST, RequestError
from study.matrix import Cell, matrix


def main(arguments: list[str]) -> int:
    """The subcommand. Exit status 0, or 2 for an unknown mode or a level that is wrong."""
    options = _parser().parse_intermixed_args(arguments)
    modes = [word for word in options.words if "=" not in word]
    try:
        cells = list(matrix(modes, [word for word in options.words if "=" in word]))
    except RequestError as error:
        Console(stderr=True, soft_wrap=True).print(str(error), highlight=False, markup=False)
        return EXIT_REQUEST
    if options.json:
        print(json.dumps([asdict(cell) for cell in cells], ensure_ascii=False, indent=1))
    else:
        Console().print(_table(cells, with_proof=bool(modes)))
    return EXIT_OK


def _table(cells: list[Cell], with_proof: bool) -> Table:
    """Cells that say the same share a row: of both frameworks, or of several devices."""
    table = Table(title="Allocation modes: what is set, or why not", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("mode, device: framework", no_wrap=True)
    table.add_column("what is set, or why not", overflow="fold")
    for mode, rows in itertools.groupby(_merged(cells), key=lambda row: row[0]):
        table.add_section()
        table.add_row(mode, "", style="bold")
        for _, devices, frameworks, cell in rows:
            table.add_row(f"  {devices}: {frameworks}", _words(cell, with_proof))
    return table


def _merged(cells: list[Cell]) -> list[tuple[str, str, str, Cell]]:
    """(mode, devices, frameworks, one of the cells) of all cells that say the same of the same frameworks."""
    by_device: dict[tuple[Any, ...], list[str]] = {}
    for cell in cells:
        key = (cell.mode, cell.device, cell.settings, cell.why_not, cell.note)
        by_device.setdefault(key, []).append(cell.framework)
    merged: dict[tuple[Any, ...], list[str]] = {}
    for (mode, device, *said), frameworks in by_device.items():
        merged.setdefault((mode, tuple(frameworks), *said), []).append(device)
    found = {(cell.mode, cell.device, cell.framework): cell for cell in cells}
    return [
        (key[0], ", ".join(devices), ", ".join(key[1]), found[key[0], devices[0], key[1][0]])
        for key, devices in merged.items()
    ]


def _words(cell: Cell, with_proof: bool) -> str:
    if cell.why_not is not None:
        return f"not applicable: {cell.why_not}"
    lines = list(cell.settings) or ["nothing"]
    lines += [f"({cell.note})"] if cell.note else []
    if with_proof:
        lines += [f"read back as {name}: {MECHANISMS.get(name, 'a mechanism of your own')}" for name in cell.accepts]
        lines += [] if cell.accepts else ["read back, and any mechanism accepted"]
    return "\n".join(lines)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="study modes",
        description="The allocation modes: what each sets for each framework on each device, or why it does not.",
        epilog="f is allocation.fraction; total is the device's memory.",
    )
    parser.add_argument("words", nargs="*", metavar="MODE", help="modes to show with their proof (default: all, short)")
    parser.add_argument("--json", action="store_true", help="the cells as JSON")
    return parser
