"""The live bytes over a module's schedule, and its largest buffers, from the texts that XLA's --xla_dump_to writes.

CPU and GPU write them: NAME-buffer-assignment.txt says where every value lies, NAME-live-range.txt from when to when it
lives. (The CPU's buffer-assignment proto holds no lifetimes, for its heap traces are empty. A TPU's compiler gives
neither.)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

from runners.records import Buffer

#: How many buffers are kept, and how many points of a timeline.
LARGEST, POINTS = 10, 200

_ALLOCATION = re.compile(r"allocation \d+: size (\d+), (.*)")
_KINDS = {"parameter": "argument", "constant": "constant", "thread-local": "thread-local", "live-out": "output"}
_VALUE = re.compile(r" value: <\d+ (\S+) @\d+> \(size=(\d+),offset=(\d+)\)")
_RANGE = re.compile(r"\s+(\S+?\{[\d,]*\}):(\d+)-(\d+)$")


def from_dump(folder: Path) -> tuple[list[int] | None, list[Buffer] | None]:
    """Timeline (bytes) and largest buffers of the module dumped into `folder`; (None, None) where none was.

    One module is compiled, but small helpers may be dumped beside it: the largest assignment is the module's.
    """
    assignments = list(folder.glob("*-buffer-assignment.txt"))
    if not assignments:
        return None, None
    chosen = max(assignments, key=lambda path: path.stat().st_size)
    ranges = chosen.with_name(chosen.name.replace("-buffer-assignment", "-live-range"))
    return from_text(chosen.read_text(), ranges.read_text() if ranges.exists() else "")


@dataclass
class _Value:
    """A value of the text: where it lies, and what its allocation is for."""

    size: int
    place: tuple[int, int]
    kind: str


def from_text(assignment: str, live_range: str) -> tuple[list[int] | None, list[Buffer]]:
    """Timeline and largest buffers from the text of a buffer assignment and that of its live ranges (may be empty)."""
    values: dict[str, _Value] = {}
    kind, number = "", 0
    for line in assignment.splitlines():
        if found := _ALLOCATION.match(line):
            number, kind = number + 1, _kind(found[2])
        elif (found := _VALUE.match(line)) and kind != "thread-local":
            name = found[1] if found[1].endswith("}") else f"{found[1]}{{}}"
            values[name] = _Value(int(found[2]), (number, int(found[3])), kind)
    largest = [Buffer(name.removesuffix("{}"), one.size, one.kind) for name, one in values.items()]
    largest.sort(key=lambda buffer: -buffer.bytes)
    matches = filter(None, map(_RANGE.match, live_range.splitlines()))
    ranges = [(found[1], int(found[2]), int(found[3])) for found in matches]
    return _thinned(_over_time(ranges, values)), largest[:LARGEST]


def _kind(text: str) -> str:
    """What an allocation is for, by the first word that its line holds."""
    return next((kind for word, kind in _KINDS.items() if word in text), "temp")


def _over_time(ranges: list[tuple[str, int, int]], values: dict[str, _Value]) -> list[int] | None:
    """Live bytes at every place of the schedule; both ends of a range count.

    But where a value begins just as another ends in the same place, it takes that one's memory over.
    """
    known = [(values[name], start, end) for name, start, end in ranges if name in values]
    if not known:
        return None
    begins = {(one.place, start) for one, start, _ in known}
    changes = [0] * (max(end for _, _, end in known) + 2)
    for one, start, end in known:
        taken_over = end > start and (one.place, end) in begins
        changes[start] += one.size
        changes[end + (0 if taken_over else 1)] -= one.size
    return list(accumulate(changes))[:-1]


def _thinned(timeline: list[int] | None) -> list[int] | None:
    """At most `POINTS` points: the highest of every stretch, so that the peak stays."""
    if timeline is None or len(timeline) <= POINTS:
        return timeline
    edges = [round(index * len(timeline) / POINTS) for index in range(POINTS + 1)]
    return [max(timeline[low:high]) for low, high in pairwise(edges)]
