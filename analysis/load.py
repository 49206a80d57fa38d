"""Journals → one tidy table, one row a trial.

Types come from `analysis.columns`, never from what a text looks like: a level named None, null, NA or off stays the
string that it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.assemble import choose_attempts, designed_conditions, join_replicates, swept_settings, with_settings
from analysis.journal_reader import Evidence, JournalReader
from analysis.reading import read_all
from analysis.request import journal_files
from runners.records import SessionRecord


@dataclass
class Journals:
    """All that the journals hold.

    `trials` has the columns of `analysis.columns`, the swept settings (`swept`: setting → column) and the hidden ones.
    `conditions` maps a condition id to its flat settings; `canonical` maps every id to that of its condition, which
    replicates that a sweep named (x=1,1,2) share. `superseded` are attempts that another record of
    the same trial replaced; `duplicates` counts lines that had occurred before, byte for byte. `bad_lines` has file,
    line_number, kept and problem. `sessions` are ordered by their start.
    """

    trials: pd.DataFrame
    conditions: dict[str, dict[str, Any]]
    sessions: list[SessionRecord]
    bad_lines: pd.DataFrame
    superseded: pd.DataFrame
    duplicates: int
    swept: dict[str, str]
    canonical: dict[str, str]
    evidence: Evidence
    folders: tuple[str, ...]


def read_journals(folders: list[Path]) -> Journals:
    """Everything under `journal/` of each folder.

    Raises:
        RequestError: a folder does not exist or holds no journal.
    """
    files = [
        (number, path, f"{folder.name}/journal/{path.name}")
        for number, folder in enumerate(folders)
        for path in journal_files(folder)
    ]
    reader = read_all(files)
    for folder in folders:
        others = (one for one in sorted((folder / "journal").glob("*.jsonl")) if not one.is_file())
        reader.bad += [(f"{folder.name}/journal/{one.name}", 0, False, "no file: nothing was read") for one in others]
    return _assemble(reader, tuple(folder.name for folder in folders))


def _assemble(reader: JournalReader, folders: tuple[str, ...]) -> Journals:
    """What the reader found as one table, in the order in which the trials ran."""
    table = reader.table()
    sessions = sorted(reader.sessions.values(), key=lambda session: session.started_utc)
    names = {key: session.study for key, session in reader.sessions.items()}
    keys = zip(table["_folder"], table["session_id"], strict=True)
    table["study"] = pd.array([names.get(key, folders[key[0]]) for key in keys], dtype="str")
    conditions, canonical = join_replicates({**designed_conditions(sessions), **reader.conditions})
    table["condition_id"] = pd.array([canonical[condition] for condition in table["condition_id"]], dtype="str")
    swept = swept_settings(sessions, conditions)
    chosen = choose_attempts(table)
    ordered = table[chosen].sort_values(["_folder", "block", "order", "_replicate"], kind="stable")
    return Journals(
        trials=with_settings(ordered, conditions, swept),
        conditions=conditions,
        sessions=sessions,
        bad_lines=pd.DataFrame(reader.bad, columns=["file", "line_number", "kept", "problem"]),
        superseded=table[~chosen],
        duplicates=reader.duplicates,
        swept=swept,
        canonical=canonical,
        evidence=reader.evidence,
        folders=folders,
    )
