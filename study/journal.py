"""The append-only journal of a study: a trial counts as done once its line is on disk.

One file per writing process, so that workers on many hosts never share a file. A file opens with its session line.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from runners.lines import RecordError, decode_line, encode_line, trial_from_dict
from runners.records import SessionRecord, TrialRecord
from study.errors import RequestError, StorageError


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
    """What earlier sessions left in a folder: a record of each trial id, and the unreadable lines."""

    records: dict[str, TrialRecord] = field(default_factory=dict)
    sessions: list[dict[str, Any]] = field(default_factory=list)
    bad_lines: list[str] = field(default_factory=list)


def read_past(folder: Path) -> Past:
    """All journals of a folder. Of several records of one trial the last is kept; a bad line costs only itself."""
    past = Past()
    for place, line in _lines(folder):
        try:
            body = decode_line(line)
            if body.get("kind") == "session":
                past.sessions.append(body)
            else:
                record = trial_from_dict(body)
                past.records[record.spec.trial_id] = record
        except RecordError as error:
            past.bad_lines.append(f"{place}: {error}")
    past.sessions.sort(key=lambda session: str(session.get("started_utc")))
    return past


def _lines(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(one for one in (folder / "journal").glob("*.jsonl") if one.is_file()):
        text = path.read_bytes().decode("utf-8-sig", errors="replace")
        for number, line in enumerate(text.split("\n"), start=1):
            stripped = line.strip("\0 \t\r\ufeff")
            if stripped:
                yield f"{path.name} line {number}", stripped


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
