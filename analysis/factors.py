"""The design seen from a condition: its level of the primary factor, and its cell (all its other settings)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from analysis import labels
from runners.naming import telling
from runners.records import SessionRecord

Settings = Mapping[str, Any]

#: What the settings of co-location are where there is none, and where a study knew nothing of it.
ALONE = {"colocation": "solo", "colocation.tenant": None, "colocation.stagger_seconds": None}


@dataclass(frozen=True)
class Place:
    """Where a condition stands: `level` and `cell` identify (they are JSON of the settings), the labels are read.

    `tenant`: it shares its device. `company` names with whom, where the levels differ in that; else it is empty.
    """

    level: str
    cell: str
    level_label: str
    cell_label: str
    tenant: bool = False
    company: str = ""


def primary_settings(sessions: list[SessionRecord], conditions: Mapping[str, Settings]) -> tuple[str, ...]:
    """The settings that make up the factor whose levels are compared.

    The first design that names one decides; without a design it is the framework where that differs, else the first
    setting that differs. A factor brings its refinements along (framework: compile, framework.python; allocation:
    allocation.fraction …), except one that is crossed with it.
    """
    named = next((session.design["primary"] for session in sessions if session.design.get("primary")), None)
    if named is None:
        candidates = differing(conditions)
        named = "framework" if {"framework", "compile"} & set(candidates) else next(iter(candidates), "framework")
    names = [named] if isinstance(named, str) else list(named)
    if "framework" in names and "compile" not in names:
        names.append("compile")
    keys = dict.fromkeys(key for settings in conditions.values() for key in settings)
    finer = [key for key in keys if any(key.startswith(f"{name}.") for name in names)]
    return tuple(dict.fromkeys([*names, *(key for key in finer if not _crossed(key, names, conditions))]))


def _crossed(key: str, names: list[str], conditions: Mapping[str, Settings]) -> bool:
    """Whether every level of the factor comes with the same two or more values of a refinement.

    Then the refinement is a factor of its own: batch sizes under workloads. Where it takes other values, or one, at
    each level (a fraction that only one allocation mode has) it is a part of the level.
    """
    values: dict[str, set[str]] = {}
    for settings in conditions.values():
        level = repr([settings.get(name) for name in names])
        values.setdefault(level, set()).add(repr(settings.get(key)))
    first = next(iter(values.values()))
    return len(first) > 1 and all(other == first for other in values.values())


def places(conditions: Mapping[str, Settings], primary: tuple[str, ...]) -> dict[str, Place]:
    """Condition id → its place."""
    shown = telling(differing(conditions), conditions.values())
    return {condition: _place(settings, shown, primary) for condition, settings in conditions.items()}


def _place(settings: Settings, shown: list[str], primary: tuple[str, ...]) -> Place:
    level = {key: settings.get(key) for key in primary}
    cell = {key: value for key, value in settings.items() if key not in primary}
    return Place(
        level=json.dumps(level, sort_keys=True, default=str),
        cell=json.dumps(cell, sort_keys=True, default=str),
        level_label=labels.level_label(settings, primary),
        cell_label=labels.cell_label(settings, shown, primary),
        tenant=is_tenant(settings),
        company=str(settings["colocation"]) if is_tenant(settings) and "colocation" in primary else "",
    )


def is_tenant(settings: Settings) -> bool:
    """Whether the condition shares its device with others."""
    return settings.get("colocation.tenant") is not None


def without_company(settings: Settings) -> dict[str, Any]:
    """The settings as if the trial had its device to itself: what it does is the same."""
    return {**settings, **ALONE}


def differing(conditions: Mapping[str, Settings]) -> list[str]:
    """The settings that are not the same in all conditions, in order of appearance."""
    keys = dict.fromkeys(key for settings in conditions.values() for key in settings)
    return [key for key in keys if len({repr(settings.get(key)) for settings in conditions.values()}) > 1]
