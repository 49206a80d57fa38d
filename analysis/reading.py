"""Reads all journals of an analysis; where there is much to read, in several processes, each a part of a file."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from analysis import processes
from analysis.journal_reader import JournalReader, Part
from runners.lifeline import die_with_parent

#: From here on several processes pay: each takes a second or two to start.
MANY_BYTES = 96 * 2**20

#: More processes than this would wait for the one that joins what they found.
MOST_PROCESSES = 8

#: A process reads so much at a time: what it found is then no more than it and the one that joins can hold.
MOST_PART_BYTES = 128 * 2**20


def read_all(files: list[tuple[int, Path, str]]) -> JournalReader:
    """What these files hold: (number of the folder, path, name to show) of each, in order."""
    total = sum(path.stat().st_size for _, path, _ in files)
    count = processes.at_most(MOST_PROCESSES) if total >= MANY_BYTES else 1
    whole = JournalReader()
    if count == 1:
        for file in files:
            whole.read(next(parts(*file, 2**63)))
        return whole
    rounds = -(-total // (count * MOST_PART_BYTES))  # all processes have as much to do
    pieces = [part for file in files for part in parts(*file, -(-total // (count * rounds)))]
    # started afresh: a copy of this process would hold threads that were in the middle of something
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, mp_context=context, initializer=die_with_parent) as pool:
        for reader in pool.map(read_part, pieces):
            whole.join(reader)
    return whole


def read_part(part: Part) -> JournalReader:
    """A reader that has read this part alone."""
    reader = JournalReader()
    reader.read(part)
    return reader


def parts(folder: int, path: Path, shown: str, most_bytes: int) -> Iterator[Part]:
    """The file in parts that end at a line's end, each of `most_bytes` and the rest of a line at most."""
    size = path.stat().st_size
    start, line = 0, 1
    with path.open("rb") as stream:
        while start < size or start == 0:
            stream.seek(min(start + most_bytes, size))
            stream.readline()
            stop = stream.tell()
            yield Part(folder, path, shown, start, stop, line)
            if stop >= size:
                return
            line += _count_lines(path, start, stop)
            start = stop


def _count_lines(path: Path, start: int, stop: int) -> int:
    with path.open("rb") as stream:
        stream.seek(start)
        return sum(stream.read(min(2**20, stop - place)).count(b"\n") for place in range(start, stop, 2**20))
