"""Journal lines → typed rows, with every line that could not be read listed. Nothing is inferred from text."""

from __future__ import annotations

import hashlib
import itertools
import operator
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.allocators.tenants import Chip
from analysis.allocators.traces import PlannedBuffers
from analysis.columns import COLUMNS, HIDDEN, SETTING_COLUMNS, Column
from analysis.factors import ALONE
from analysis.rows import Row, trial_row
from analysis.session_lines import read_session
from runners.lines import RecordError, decode_line
from runners.records import SessionRecord

#: Rows turned into typed arrays at a time: keeps Python objects of at most this many trials alive.
CHUNK_ROWS = 2_000

_BOM = b"\xef\xbb\xbf"


@dataclass
class Evidence:
    """What pairs need beyond the table, keyed by the table's index labels.

    `series` is float64 of shape (2, windows), start and seconds a step of each window, for interleaved trials only;
    `losses` and `reference_losses` are float64 of shape (steps,). `precisions` is keyed by condition id.
    `timelines` are the live bytes of compiled trials, int64 of shape (points,), `buffers` those that cross their step's
    boundary, `chips` the GPUs that they were compiled for.
    """

    series: dict[int, np.ndarray] = field(default_factory=dict)
    losses: dict[int, np.ndarray] = field(default_factory=dict)
    reference_losses: dict[int, np.ndarray] = field(default_factory=dict)
    input_hashes: dict[int, str] = field(default_factory=dict)
    precisions: dict[str, str] = field(default_factory=dict)
    timelines: dict[int, np.ndarray] = field(default_factory=dict)
    buffers: dict[int, PlannedBuffers] = field(default_factory=dict)
    chips: dict[int, Chip] = field(default_factory=dict)

    def add(self, label: int, row: Row) -> None:
        self.precisions.setdefault(row.values["condition_id"], row.precision)
        if row.series is not None:
            self.series[label] = row.series
        if row.timeline is not None:
            self.timelines[label] = row.timeline
        if row.buffers is not None:
            self.buffers[label] = row.buffers
        if row.chip is not None:
            self.chips[label] = row.chip
        if row.losses.size:
            self.losses[label] = row.losses
        if row.reference_losses.size:
            self.reference_losses[label] = row.reference_losses
        if row.input_hash:
            self.input_hashes[label] = sys.intern(row.input_hash)

    def join(self, other: Evidence, labels: dict[int, int]) -> None:
        """Take over what another reader found; `labels` maps its labels to ours, and those it lacks are left out."""
        self.precisions = {**self.precisions, **other.precisions, **self.precisions}
        for name in ("series", "losses", "reference_losses", "input_hashes", "timelines", "buffers", "chips"):
            found: dict[int, Any] = getattr(other, name)
            getattr(self, name).update({labels[old]: value for old, value in found.items() if old in labels})


class Part(NamedTuple):
    """The lines of a journal file from byte `start` to `stop`, of which the first has the number `first_line`.

    `folder` counts the studies' folders, `shown` is the file's name in the list of bad lines.
    """

    folder: int
    path: Path
    shown: str
    start: int
    stop: int
    first_line: int


class JournalReader:
    """Reads parts of journal files one after the other; rows are turned into typed arrays in chunks.

    `table` gives the rows; `sessions` and `conditions` are what was met on the way, `bad` the lines that were not as
    written: (file, line number, whether the record was kept, problem). `seen` maps a line's hash to its row's label.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.chunks: list[pd.DataFrame] = []
        self.bad: list[tuple[str, int, bool, str]] = []
        self.seen: dict[bytes, int] = {}
        self.duplicates = 0
        self.count = 0
        self.sessions: dict[tuple[int, str], SessionRecord] = {}
        self.conditions: dict[str, dict[str, Any]] = {}
        self.evidence = Evidence()

    def read(self, part: Part) -> None:
        """All lines of a part of a journal file."""
        with part.path.open("rb") as stream:
            stream.seek(part.start)
            left, number = part.stop - part.start, part.first_line
            while left > 0 and (raw := stream.readline()):
                line, repair = clean_line(raw)
                if line or repair:
                    self._read_line(part.folder, part.shown, number, line, repair)
                left, number = left - len(raw), number + 1

    def join(self, other: JournalReader) -> None:
        """Take over what another reader found in a later part; lines that we have already are left out and counted."""
        table = other.table()
        new = {identity: label for identity, label in other.seen.items() if identity not in self.seen}
        labels = {label: self.count + place for place, label in enumerate(new.values())}
        self._type_rows()
        self.chunks.append(table.loc[list(labels)])
        self.seen.update({identity: labels[label] for identity, label in new.items()})
        self.evidence.join(other.evidence, labels)
        self.duplicates += other.duplicates + len(other.seen) - len(new)
        self.count += len(new)
        self.bad += other.bad
        self.sessions.update(other.sessions)
        self.conditions = {**self.conditions, **other.conditions, **self.conditions}

    def _read_line(self, folder: int, shown: str, number: int, line: bytes, repair: str) -> None:
        if not line:
            self.bad.append((shown, number, False, f"{repair}; no record on this line"))
            return
        try:
            body = decode_line(line.decode())
            if b"\\u" in line:
                body = _encodable(body)
            if body.get("kind") == "session":
                session = read_session(body)
                self.sessions[folder, session.session_id] = session
            elif body.get("kind") != "started":  # what a worker was about to do: its record says how it ended
                self._keep(folder, line, trial_row(body))
        except (RecordError, ValueError, RecursionError) as error:
            self.bad.append((shown, number, False, str(error)))
            return
        if repair:
            self.bad.append((shown, number, True, f"{repair}; the record itself is whole"))

    def _keep(self, folder: int, line: bytes, row: Row) -> None:
        identity = hashlib.blake2b(line, digest_size=12).digest()
        if identity in self.seen:
            self.duplicates += 1
            return
        self.seen[identity] = self.count
        replicate = int(row.settings.get("replicate") or 0)
        self.rows.append({**row.values, "_folder": folder, "_started": row.started_utc, "_replicate": replicate})
        self.conditions.setdefault(row.values["condition_id"], _whole_settings(row))
        self.evidence.add(self.count, row)
        self.count += 1
        if len(self.rows) >= CHUNK_ROWS:
            self._type_rows()

    def _type_rows(self) -> None:
        # row by row, as each row lies in memory: column by column took a quarter of the time of reading
        values = zip(*map(_VALUES, self.rows), strict=True) if self.rows else itertools.repeat(())
        self.chunks.append(
            pd.DataFrame({column.name: _typed(found, column) for column, found in zip(_READ, values, strict=False)})
        )
        self.rows = []

    def table(self) -> pd.DataFrame:
        """All rows so far: the documented columns but `study`, and the hidden ones. The index counts from 0."""
        self._type_rows()
        return pd.concat(self.chunks, ignore_index=True)


def clean_line(raw: bytes) -> tuple[bytes, str]:
    """A raw line without byte order mark, NUL padding and line end, and what was removed in words ('' for nothing)."""
    repairs = []
    line = raw.strip(b"\r\n \t")
    if line.startswith(_BOM):
        line = line[len(_BOM) :]
        repairs.append("a byte order mark before it")
    stripped = line.strip(b"\x00\r\n \t")
    if len(stripped) < len(line) and b"\x00" in line:
        repairs.append(f"{line.count(0) - stripped.count(0)} NUL bytes around it")
    return stripped, " and ".join(repairs)


def _encodable(value: Any) -> Any:
    """The value with a replacement character for what no file can hold: half of a pair, as from a name in odd bytes."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_encodable(key): _encodable(one) for key, one in value.items()}
    return [_encodable(one) for one in value] if isinstance(value, list) else value


def _whole_settings(row: Row) -> dict[str, Any]:
    """The flat settings, completed by what the record itself says; framework and compile are always the record's."""
    said = {setting: row.values[column] for setting, column in SETTING_COLUMNS.items()}
    return {**ALONE, **said, **row.settings, "framework": said["framework"], "compile": said["compile"]}


#: The columns that a journal line fills, and their values of one row.
_READ = [column for column in (*COLUMNS, *HIDDEN) if column.name != "study"]
_VALUES = operator.itemgetter(*(column.name for column in _READ))


def _typed(values: tuple[Any, ...], column: Column) -> Any:
    if column.dtype == "float64":
        return np.array([np.nan if value is None else value for value in values], dtype=float)
    dtype: Any = column.dtype
    return pd.array(values, dtype=dtype)
