"""A journal read in parts, by several processes, is the same as read at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis import reading
from analysis.load import read_journals
from analysis.reading import parts
from analysis.tables import build_tables
from runners.lines import encode_line
from tests.analysis import records_factory as factory

JAX, TF = factory.condition("jax"), factory.condition("tf")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files of 40 interleaved trials, with damaged lines and with duplicates far from their first occurrence."""
    starts = [float(turn) for turn in range(5)]
    trials = [
        factory.trial(
            one,
            b,
            windows=[0.01 * (1 + n) * (1 + 0.001 * b)] * 5,
            starts=[100 * b + start + 0.3 * n for start in starts],
            interleave=True,
        )
        for b in range(20)
        for n, one in enumerate((JAX, TF))
    ]
    factory.write(tmp_path / "s", factory.session([JAX, TF], 20), *trials[:30], file="a.jsonl")
    factory.write(tmp_path / "s", factory.session([JAX, TF], 20), *trials[30:], trials[0], trials[31], file="b.jsonl")
    path = tmp_path / "s" / "journal" / "a.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(20, b"{torn\n")
    path.write_bytes(b"".join(lines) + encode_line(trials[2]).encode() + b"no line end")
    return tmp_path / "s"


@pytest.mark.parametrize("most_bytes", [1, 700, 5000, 10**9])
def test_parts_are_whole_lines_that_make_up_the_file(folder: Path, most_bytes: int) -> None:
    path = folder / "journal" / "a.jsonl"
    found = list(parts(0, path, "a", most_bytes))
    content = path.read_bytes()
    assert b"".join(content[part.start : part.stop] for part in found) == content
    for part in found:
        assert part.start == 0 or content[part.start - 1 : part.start] == b"\n"
        assert part.first_line == content[: part.start].count(b"\n") + 1
    assert (len(found) == 1) == (most_bytes == 10**9)


def test_an_empty_file_is_one_part(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    assert [(part.start, part.stop) for part in parts(0, tmp_path / "a.jsonl", "a", 10)] == [(0, 0)]


def test_several_processes_find_what_one_finds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = read_journals([folder])
    monkeypatch.setattr(reading, "MANY_BYTES", 1)
    monkeypatch.setattr(reading.processes, "at_most", lambda _: 3)
    in_parts = read_journals([folder])
    pd.testing.assert_frame_equal(at_once.trials, in_parts.trials)
    pd.testing.assert_frame_equal(at_once.bad_lines, in_parts.bad_lines)
    assert at_once.bad_lines["line_number"].tolist() == [21, 34]
    assert (at_once.duplicates, in_parts.duplicates) == (3, 3)
    assert list(at_once.conditions) == list(in_parts.conditions)
    assert at_once.evidence.input_hashes == in_parts.evidence.input_hashes
    assert at_once.evidence.series.keys() == in_parts.evidence.series.keys()
    for label, series in at_once.evidence.series.items():
        assert np.array_equal(series, in_parts.evidence.series[label])
    pd.testing.assert_frame_equal(build_tables(at_once, 0.02).pairs, build_tables(in_parts, 0.02).pairs)
