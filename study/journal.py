"""The append-only journal of a study: a trial counts as done once its line is on disk.

One file per writing process, so that workers on many hosts never share a file. A file opens with its session line.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from runners.lines import RecordError, decode_line, encode_line, trial_from_dict
from runners.records import ANSWERS, SessionRecord, TrialRecord
from runners.specs import TrialSpec
from study.errors import RequestError, StorageError

#: The kind of line by which a worker says that a trial begins; analysis passes over it.
STARTED = "started"


class Journal:
    """Writes records to `folder`/journal/SESSION.jsonl, each on disk (fsync) before `append` returns.

    Use as a context manager. The file is made with the session line at once.

    Raises:
        StorageError: the folder cannot be written, or the disk is full. A line that was cut is taken back.
    """

    def __init__(self, folder: Path, session: SessionRecord) -> None:
        self._path = folder / "journal" / f"{session.session_id}.jsonl"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise StorageError(_trouble(self._path, error)) from error
        self._write(encode_line(session))
        _sync_folder(self._path.parent)

    def append(self, record: TrialRecord) -> None:
        """Put one record on disk. Raises `StorageError` and leaves the file as it was where that fails."""
        self._write(encode_line(record))

    def begin(self, group: Sequence[TrialSpec]) -> None:
        """Put on disk that these trials are about to be launched: what is left of them if this process is lost."""
        now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        told = [{"kind": STARTED, "trial_id": spec.trial_id, "started_utc": now} for spec in group]
        self._write("".join(map(encode_line, told)))

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def _write(self, line: str) -> None:
        before = os.fstat(self._file).st_size
        try:
            remaining = memoryview(line.encode())
            while remaining:
                remaining = remaining[os.write(self._file, remaining) :]
            os.fsync(self._file)
        except OSError as error:
            os.ftruncate(self._file, before)
            raise StorageError(_trouble(self._path, error)) from error


class FolderLock:
    """Holds a study's folder for one writer. The kernel lets go when the process ends, however it ends.

    Raises:
        RequestError: another study holds the folder, or the folder cannot be made.
    """

    def __init__(self, folder: Path) -> None:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RequestError(
                f"{folder} cannot be written: {error.strerror}. Choose another place or free it"
            ) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise RequestError(
                f"another study is writing into {folder}; wait for it, or give this one another study.name"
            ) from None

    def release(self) -> None:
        """Let the next writer in."""
        os.close(self._file)


@dataclass
class Past:
    """What a folder's journals hold: a record of each trial id, and the unreadable lines.

    `begun` has the trials that workers announced, session id and trial id → when; `ended` those that have a record.
    """

    records: dict[str, TrialRecord] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    bad_lines: list[str] = field(default_factory=list)
    begun: dict[tuple[str, str], str] = field(default_factory=dict)
    ended: set[tuple[str, str]] = field(default_factory=set)

    def done(self) -> set[str]:
        """The trials with an answer, which no resume runs again."""
        return {key for key, record in self.records.items() if record.outcome.kind in ANSWERS}

    def design(self) -> dict[str, Any]:
        """The design of the last session that had one; a worker's session has none."""
        return next((one["design"] for one in reversed(self.sessions) if "seed" in (one.get("design") or {})), {})

    def take(self, place: str, line: str, session_id: str) -> TrialRecord | None:
        """Take in one line of the journal of this session; its record, where it is one."""
        try:
            body = decode_line(line)
            if body.get("kind") == "session":
                self.sessions.append(body)
                return None
            if body.get("kind") == STARTED:
                self.begun[session_id, str(body.get("trial_id"))] = str(body.get("started_utc"))
                return None
            record = trial_from_dict(body)
        except RecordError as error:
            self.bad_lines.append(f"{place}: {error}")
            return None
        self.records[record.spec.trial_id] = record
        self.ended.add((record.session_id, record.spec.trial_id))
        return record


def read_past(folder: Path) -> Past:
    """All journals of a folder. Of several records of one trial the last is kept; a bad line costs only itself."""
    past = Past()
    for path in _journals(folder):
        for place, line in _lines(path.read_bytes(), path.name):
            past.take(place, line, path.stem)
    past.sessions.sort(key=lambda session: str(session.get("started_utc")))
    return past


class JournalTail:
    """Reads what has been added to a folder's journals since the last look. `past` holds all of it.

    A last line without its end is left for the next look: its writer may be at work on it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read_bytes: dict[Path, int] = {}
        self.past = Past()

    def refresh(self) -> list[TrialRecord]:
        """The records that are new in the folder, in the order found."""
        return [record for path in _journals(self._folder) for record in self._added(path)]

    def read(self, sessions: Iterable[str]) -> list[TrialRecord]:
        """The records that are new in the journals of these sessions, whether or not the folder lists them yet.

        A file is opened anew, which makes an NFS client ask its server how long it is by now.
        """
        named = [self._folder / "journal" / f"{one}.jsonl" for one in dict.fromkeys(sessions)]
        return [record for path in named if path.is_file() for record in self._added(path)]

    def _added(self, path: Path) -> list[TrialRecord]:
        start = self._read_bytes.get(path, 0)
        with path.open("rb") as file:
            file.seek(start)
            added = file.read()
        added = added[: added.rfind(b"\n") + 1]
        self._read_bytes[path] = start + len(added)
        taken = [self.past.take(place, line, path.stem) for place, line in _lines(added, path.name)]
        return [record for record in taken if record is not None]


def _journals(folder: Path) -> list[Path]:
    return sorted(one for one in (folder / "journal").glob("*.jsonl") if one.is_file())


def _lines(content: bytes, name: str) -> Iterator[tuple[str, str]]:
    text = content.decode("utf-8-sig", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1):
        stripped = line.strip("\0 \t\r\ufeff")
        if stripped:
            yield f"{name} line {number}", stripped


def _trouble(path: Path, error: OSError) -> str:
    return (
        f"{path} could not be written: {error.strerror}. Everything finished before is kept; "
        f"make room or give write permission, then run the same command with study.resume={path.parent.parent}"
    )


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
