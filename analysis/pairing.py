"""Which trials are compared with which: two levels of the primary factor, all else equal, block by block."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pandas as pd

from analysis.factors import Place
from analysis.frames import rows
from runners.records import OutcomeKind

#: With more levels than this, every level is compared with the first one only: all pairs would be millions of tests.
ALL_PAIRS_LEVELS = 20

#: Folder, block, replicate: trials that may be set against each other.
Block = tuple[int, int, int]


@dataclass
class Side:
    """One condition's trials within one provenance: index labels of usable trials by block, and outcome counts.

    `elsewhere` says of a side without trials that it was run under another provenance.
    """

    level: str
    label: str
    condition: str = ""
    tenant: bool = False
    elsewhere: bool = False
    usable: dict[Block, list[int]] = field(default_factory=dict)
    outcomes: Counter[str] = field(default_factory=Counter)

    @property
    def not_ok(self) -> int:
        """Trials that ended otherwise than ok."""
        return self.outcomes.total() - self.outcomes[OutcomeKind.OK.value]


@dataclass
class Pair:
    """Two sides and their common blocks: for each, the index labels of either side's usable trials."""

    provenance_hash: str
    cell: str
    first: Side
    second: Side
    common: list[tuple[list[int], list[int]]]

    @property
    def gap(self) -> str:
        """Why there is no common block, in words; empty where there is one."""
        if self.common:
            return ""
        missing = [side for side in (self.first, self.second) if not side.usable]
        return "; ".join(map(_absence, missing)) or "no block in which both ended ok"


def find_pairs(trials: pd.DataFrame, places: dict[str, Place]) -> list[Pair]:
    """Every pair of levels in every cell where at least one of them was tried; trials of equal provenance only.

    A cell that one side lacks yields a pair without common blocks: the gap is shown, not averaged away. Tenants differ
    from solo trials in a setting, so that neither stands in for the other; the tenants of one company are not compared
    with each other, nor with what no company has.
    """
    sides = _sides(trials, places)
    levels = {place.level: place.level_label for place in places.values()}
    companies = {place.level: place.company for place in places.values()}
    alone = {place.level for place in places.values() if not place.tenant}
    pairs = []
    cell_labels: dict[str, str] = {}
    for place in places.values():
        cell_labels.setdefault(place.cell, place.cell_label)
    run_anywhere = {(key, level) for (_, key), cell in sides.items() for level in cell}
    for (provenance, key), cell in sides.items():
        for one, other in _combinations(list(levels), cell):
            if not _is_meant(one, other, cell, companies, alone):
                continue
            first, second = (
                cell.get(level) or Side(level, levels[level], elsewhere=(key, level) in run_anywhere)
                for level in (one, other)
            )
            blocks = [block for block in first.usable if block in second.usable]
            common = [(first.usable[block], second.usable[block]) for block in blocks]
            pairs.append(Pair(provenance, cell_labels[key], first, second, common))
    return pairs


def _combinations(levels: list[str], present: dict[str, Side]) -> Iterator[tuple[str, str]]:
    """Pairs of levels, in order, of which the cell has at least one."""
    if len(levels) > ALL_PAIRS_LEVELS:
        return iter([(level, levels[0]) for level in levels[1:] if level in present])
    return (pair for pair in itertools.combinations(levels, 2) if pair[0] in present or pair[1] in present)


def _is_meant(one: str, other: str, cell: dict[str, Side], companies: dict[str, str], alone: set[str]) -> bool:
    """Whether two levels are to be compared in a cell that has one of them, or both.

    The design crosses a tenant's company with no framework: where the other level is missing, that is no gap.
    """
    if one in cell and other in cell:
        return not companies[one] or companies[one] != companies[other]
    missing, present = (other, cell[one]) if one in cell else (one, cell[other])
    return missing in alone and not present.tenant


def _sides(trials: pd.DataFrame, places: dict[str, Place]) -> dict[tuple[str, str], dict[str, Side]]:
    """(provenance, cell) → level → side."""
    found: dict[tuple[str, str], dict[str, Side]] = {}
    columns = ["provenance_hash", "condition_id", "_folder", "block", "_replicate", "outcome", "step_seconds"]
    for label, (provenance, condition, *block, outcome, value) in zip(trials.index, rows(trials[columns]), strict=True):
        place = places[condition]
        cell = found.setdefault((provenance, place.cell), {})
        side = cell.get(place.level)
        if side is None:
            side = cell[place.level] = Side(place.level, place.level_label, condition, place.tenant)
        side.outcomes[outcome] += 1
        if outcome == OutcomeKind.OK and value == value:
            side.usable.setdefault((int(block[0]), int(block[1]), int(block[2])), []).append(label)
    return found


def _absence(side: Side) -> str:
    if not side.outcomes and side.elsewhere:
        return f"{side.label}: run on another kind of machine or other versions only, which is not compared"
    if not side.outcomes:
        return f"{side.label}: not run"
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(side.outcomes.items()))
    return f"{side.label}: {counts}" + (" without a usable time" if side.outcomes[OutcomeKind.OK.value] else "")
