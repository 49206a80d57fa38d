"""The BFC replay against TensorFlow's own allocator: a recorded trace, and a few real ones.

The whole comparison, over hundreds of traces, is tests/benchmarks/allocator_against_tf.py.
"""

from __future__ import annotations

from pathlib import Path

from tests.analysis import bfc_log, real_bfc

RECORDED = Path(__file__).parents[1] / "recorded" / "bfc"
#: Five traces that fit and three that end out of memory, by the replay.
SEEDS = [0, 1, 2, 3, 5, 4, 93, 103]


def test_the_recorded_log_reads_as_it_stands() -> None:
    log = bfc_log.read((RECORDED / "93.log").read_text())
    assert log.allocations_count == 35
    assert log.bases == [0x7F378ADFD040, 0x7F37885FB040, 0x7F3775FFF040, 0x7F3773DFE040]
    assert [(size, len(chunks)) for size, chunks in log.regions] == [
        (35651584, 3), (33554432, 1), (33554432, 5), (2097152, 5),
    ]  # fmt: skip
    assert log.regions[2][1][0] == bfc_log.MappedChunk(0x7F37885FB040, 2527488, in_use=False)


def test_a_log_without_a_refused_request_has_no_map() -> None:
    text = (RECORDED / "93.log").read_text()
    log = bfc_log.read(text[: text.index("ran out of memory")])
    assert len(log.bases) == 4 and log.regions == [] and log.allocations_count is None


def test_the_replay_ends_with_the_recorded_map_peak_and_verdict() -> None:
    assert real_bfc.differences(93, RECORDED) == {}


def test_the_comparison_finds_a_wrong_replay(tmp_path: Path) -> None:
    """One byte of the peak, one chunk of the map, the refused buffer: each is told."""
    for name, old, new in (
        ("peak", '"peak_bytes": 104857600', '"peak_bytes": 104857601'),
        ("verdict", '"refused_key": 17', '"refused_key": 16'),
        ("map", "Free  at", "InUse at"),
        ("count", "NumAllocs:                          35", "NumAllocs:                          36"),
    ):
        for path in (RECORDED / "93.json", RECORDED / "93.log"):
            (tmp_path / path.name).write_text(path.read_text().replace(old, new))
        assert list(real_bfc.differences(93, tmp_path)) == [name]


def test_real_traces_end_as_their_replays_do(tmp_path: Path) -> None:
    """About 35 s: TensorFlow is imported once, and every trace waits the 10 s that BFC waits before it refuses."""
    refused = [seed for seed in SEEDS if not real_bfc.replayed(real_bfc.case(seed), [], False)[0].fits]
    assert refused == [4, 93, 103]
    real_bfc.run(SEEDS, tmp_path)
    assert {seed: real_bfc.differences(seed, tmp_path) for seed in SEEDS} == {seed: {} for seed in SEEDS}
