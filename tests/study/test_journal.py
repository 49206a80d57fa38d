"""The journal: what is acknowledged is on disk, and a bad line costs only itself."""

from __future__ import annotations

import dataclasses
import errno
import os
import resource
from pathlib import Path

import pytest

from runners.lines import encode_line
from runners.records import SessionRecord
from study.errors import RequestError, StorageError
from study.journal import FolderLock, Journal, read_past
from tests.study.samples import record, session


def write(folder: Path, identity: SessionRecord, blocks: range) -> Path:
    with Journal(folder, identity) as journal:
        for block in blocks:
            journal.append(record(block))
    return folder / "journal" / f"{identity.session_id}.jsonl"


def test_records_come_back_as_they_were_written(tmp_path: Path) -> None:
    write(tmp_path, session("a"), range(3))
    past = read_past(tmp_path)
    assert [past.records[key] for key in sorted(past.records)] == sorted(
        (record(block) for block in range(3)), key=lambda one: one.spec.trial_id
    )
    assert [one["session_id"] for one in past.sessions] == ["a"]
    assert past.bad_lines == []


def test_every_line_is_synced_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_size)
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    path = write(tmp_path, session("a"), range(2))
    lines = path.read_text().splitlines(keepends=True)
    ends = [sum(len(line.encode()) for line in lines[: count + 1]) for count in range(3)]
    # the second is the folder, once the file is new in it
    assert synced[0] == ends[0]
    assert synced[2:] == ends[1:]


@pytest.mark.parametrize("damage", ["torn", "altered", "bom", "nul", "text"])
def test_a_damaged_line_costs_only_itself(tmp_path: Path, damage: str) -> None:
    path = write(tmp_path, session("a"), range(3))
    lines = path.read_bytes().splitlines(keepends=True)
    if damage == "torn":
        lines[3] = lines[3][: len(lines[3]) // 2]
    elif damage == "altered":
        lines[3] = lines[3].replace(b'"block":2', b'"block":7')
    elif damage == "bom":
        lines[0] = b"\xef\xbb\xbf" + lines[0]
    elif damage == "nul":
        lines.append(b"\0" * 512)
    else:
        lines.insert(2, b"not a record\n")
    path.write_bytes(b"".join(lines))
    past = read_past(tmp_path)
    kept = {"torn": 2, "altered": 2}.get(damage, 3)
    assert len(past.records) == kept
    assert len(past.bad_lines) == (0 if damage in ("bom", "nul") else 1)
    if damage in ("torn", "altered"):
        assert past.bad_lines[0].startswith("a.jsonl line 4: ")


def test_a_full_disk_acknowledges_nothing_and_keeps_the_rest(tmp_path: Path) -> None:
    first = len(encode_line(session("a")).encode()) + len(encode_line(record(0)).encode())
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # room for the first record and a part of the second; Python ignores SIGXFSZ, so the write fails as on a full disk
    resource.setrlimit(resource.RLIMIT_FSIZE, (first + 200, before[1]))
    try:
        with Journal(tmp_path, session("a")) as journal:
            journal.append(record(0))
            with pytest.raises(StorageError, match=os.strerror(errno.EFBIG)):
                journal.append(record(1))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    past = read_past(tmp_path)
    assert (list(past.records), past.bad_lines) == ([record(0).spec.trial_id], [])


def test_the_last_of_several_records_of_a_trial_is_kept(tmp_path: Path) -> None:
    with Journal(tmp_path, session("a")) as journal:
        journal.append(dataclasses.replace(record(0), elapsed_seconds=1.0))
    with Journal(tmp_path, session("b")) as journal:
        journal.append(dataclasses.replace(record(0), elapsed_seconds=2.0))
    past = read_past(tmp_path)
    assert [one.elapsed_seconds for one in past.records.values()] == [2.0]


def test_two_studies_cannot_hold_one_folder(tmp_path: Path) -> None:
    lock = FolderLock(tmp_path / "study")
    with pytest.raises(RequestError, match="another study is writing into"):
        FolderLock(tmp_path / "study")
    lock.release()
    FolderLock(tmp_path / "study").release()


def test_a_folder_that_cannot_be_made_is_a_request_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RequestError, match="cannot be written"):
        FolderLock(tmp_path / "file" / "study")
