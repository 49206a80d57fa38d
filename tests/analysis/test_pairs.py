"""Comparisons: what is paired with what, the effect, and what a sentence says of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.load import read_journals
from analysis.tables import Tables, build_tables
from runners.records import TrialRecord
from tests.analysis import records_factory as factory

JAX, TF, GRAPH = (factory.condition(name) for name in ("jax", "tf", "tf_graph"))


def tables_of(folder: Path, margin: float = 0.02) -> Tables:
    return build_tables(read_journals([folder]), margin)


def test_a_pair_by_hand(tmp_path: Path) -> None:
    """d = log .8, log .8, log .9: mean, t interval and p worked out here, from the definition."""
    ratios = (0.8, 0.8, 0.9)
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda number, block: 0.01 * (1, ratios[block])[number == 0])
    pair = tables_of(folder).pairs.iloc[0]
    d = [math.log(ratio) for ratio in ratios]
    mean = sum(d) / 3
    sd = math.sqrt(sum((x - mean) ** 2 for x in d) / 2)
    half = 4.302652729911275 * sd / math.sqrt(3)
    t = mean / (sd / math.sqrt(3))
    p = 1 - abs(t) / math.sqrt(t * t + 2)  # two-sided p of t with 2 degrees of freedom, in closed form
    assert pair["time_ratio"] == pytest.approx(math.exp(mean), rel=1e-9)
    assert pair["time_ratio_low"] == pytest.approx(math.exp(mean - half), rel=1e-9)
    assert pair["time_ratio_high"] == pytest.approx(math.exp(mean + half), rel=1e-9)
    assert pair["paired_sd_log"] == pytest.approx(sd, rel=1e-9)
    assert pair["p_value"] == pytest.approx(p, rel=1e-6)
    assert pair["p_value_holm"] == pair["p_value"]
    # Walsh averages of .8 .8 .9 on the log scale: the median lies between log .8 and (log .8 + log .9) / 2
    assert pair["hodges_lehmann_ratio"] == pytest.approx(math.exp((d[0] + (d[0] + d[2]) / 2) / 2), rel=1e-9)
    assert (pair["blocks_count"], pair["level_a"], pair["level_b"]) == (3, "jax", "tf")


def test_sentence_of_a_clear_difference(tmp_path: Path) -> None:
    noise = (0.99, 1.0, 1.01, 1.0, 1.0)
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 0.01 * (0.82 * noise[b] if n == 0 else 1), blocks=5)
    pairs = tables_of(folder).pairs
    assert pairs["sentence"].tolist() == ["jax takes 0.82 × the time of tf (95 % interval 0.81–0.83, 5 blocks): FASTER"]


def test_equal_times_are_equivalent_within_the_margin(tmp_path: Path) -> None:
    noise = (0.995, 1.0, 1.005, 1.0, 1.002)
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 0.01 * (noise[b] if n == 0 else 1), blocks=5)
    assert tables_of(folder).pairs["verdict"].tolist() == ["EQUIVALENT"]
    assert tables_of(folder, margin=0.001).pairs["verdict"].tolist() == ["UNDECIDED"]


def test_three_frameworks_make_one_family_of_three(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    noise = np.exp(chance.normal(0, 0.01, (3, 6)))
    folder = factory.study(
        tmp_path / "s", [JAX, TF, GRAPH], lambda n, b: 0.01 * (1, 1.01, 1.2)[n] * noise[n, b], blocks=6
    )
    pairs = tables_of(folder).pairs
    assert [f"{a}/{b}" for a, b in zip(pairs["level_a"], pairs["level_b"], strict=True)] == [
        "jax/tf",
        "jax/tf_graph",
        "tf/tf_graph",
    ]
    order = np.argsort(pairs["p_value"])
    expected = np.minimum(np.maximum.accumulate(pairs["p_value"].to_numpy()[order] * [3, 2, 1]), 1)
    assert pairs["p_value_holm"].to_numpy()[order] == pytest.approx(expected)


def test_only_common_cells_are_compared(tmp_path: Path) -> None:
    """Case 33: jax at sizes 1, 2, 3, tf at 1, 2, 2. jax takes 0.9 × the time where both are: no mean inverts it."""
    jax = [factory.condition("jax", workload__batch_size=size) for size in (1, 2, 3)]
    tf = [factory.condition("tf", workload__batch_size=size) for size in (1, 2)]
    seconds = [0.009, 0.018, 0.9, 0.010, 0.020]
    trials = [
        factory.trial(one, block, seconds[number] * (1 + 0.001 * block))
        for block in range(3)
        for number, one in enumerate([*jax, *tf])
    ]
    trials += [factory.trial(tf[1], block, 0.020 * (1 + 0.001 * block), replicate=1) for block in range(3)]
    tables = tables_of(factory.write(tmp_path / "s", factory.session([*jax, *tf]), *trials))
    naive = tables.conditions.groupby("framework")["step_seconds_mean"].mean()
    assert naive["jax"] > naive["tf"]
    assert tables.pairs["time_ratio"].tolist() == pytest.approx([0.9, 0.9, math.nan], nan_ok=True)
    assert tables.pairs["verdict"].tolist() == ["FASTER", "FASTER", "NO COMMON BLOCK"]
    assert tables.pairs["sentence"].iloc[2] == "batch_size 3: jax and tf have no common block (tf: not run)"
    row = tables.common_cells.iloc[0]
    assert (row["common_cells_count"], row["missing_cells_count"]) == (2, 1)
    assert row["time_ratio_geometric_mean"] == pytest.approx(0.9)


def test_blocks_with_a_failed_side_are_left_out_and_counted(tmp_path: Path) -> None:
    folder = factory.study(
        tmp_path / "s", [JAX, TF], lambda n, b: None if (n, b) in ((0, 0), (1, 3)) else 0.01 * (1 + n), blocks=5
    )
    pair = tables_of(folder).pairs.iloc[0]
    assert (pair["blocks_count"], pair["unpaired_blocks_count"]) == (3, 2)
    assert (pair["not_ok_a_count"], pair["not_ok_b_count"]) == (1, 1)


def interleaved(one: dict[str, object], block: int, factor: float, offset: float) -> TrialRecord:
    """Windows of a machine that gets 40 % slower in the middle of every block."""
    starts = [100.0 * block + turn + offset for turn in range(10)]
    windows = [factor * 0.5 * (1.0 if turn < 5 else 1.4) for turn in range(10)]
    return factory.trial(one, block, windows=windows, starts=starts, interleave=True, steps=int(50 * factor**0))


def test_interleaved_trials_are_compared_window_by_window(tmp_path: Path) -> None:
    trials = [interleaved(one, b, f, o) for b in range(3) for one, f, o in ((JAX, 0.9, 0.0), (TF, 1.0, 0.4))]
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF]), *trials)).pairs.iloc[0]
    assert pair["method"] == "neighbouring windows"
    assert pair["time_ratio"] == pytest.approx(0.9, rel=1e-9)


def test_windows_of_unequal_steps_are_compared_by_step(tmp_path: Path) -> None:
    starts = [float(turn) for turn in range(10)]
    trials = []
    for block in range(2):
        trials.append(factory.trial(JAX, block, windows=[0.5] * 10, starts=starts, interleave=True, steps=100))
        trials.append(factory.trial(TF, block, windows=[0.5] * 10, starts=starts, interleave=True, steps=50))
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF]), *trials)).pairs.iloc[0]
    assert (pair["method"], pair["time_ratio"]) == ("neighbouring windows", pytest.approx(0.5))


def test_a_trial_repeated_alone_falls_back_to_its_value(tmp_path: Path) -> None:
    trials = [interleaved(JAX, 0, 0.9, 0.0), interleaved(TF, 0, 1.0, 5000.0)]
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 1), *trials)).pairs.iloc[0]
    assert pair["method"] == "trial values"


def test_trials_that_met_only_at_their_ends_fall_back_to_their_values(tmp_path: Path) -> None:
    """jax's windows start at 0 … 9 s, tf's at 8.4 … 17.4 s: two windows are neighbours, eight would be far apart."""
    trials = [interleaved(JAX, 0, 0.9, 0.0), interleaved(TF, 0, 1.0, 8.4)]
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 1), *trials)).pairs.iloc[0]
    assert (pair["method"], pair["blocks_count"]) == ("trial values", 1)


def test_windows_of_two_sessions_are_no_neighbours(tmp_path: Path) -> None:
    """The clock restarts with the machine: equal times in two sessions mean nothing."""
    early, late = interleaved(JAX, 0, 0.9, 0.0), replace(interleaved(TF, 0, 1.0, 0.4), session_id="session-2")
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 1), early, late)).pairs.iloc[0]
    assert pair["method"] == "trial values"
    # medians over five windows of 10 and of 14 ms: 12 ms each, in the ratio of the factors
    assert pair["time_ratio"] == pytest.approx(0.9)


def test_methods_of_all_blocks_are_named(tmp_path: Path) -> None:
    trials = [interleaved(one, b, f, o) for b in range(3) for one, f, o in ((JAX, 0.9, 0.0), (TF, 1.0, 0.4))]
    trials[-1] = interleaved(TF, 2, 1.0, 5000.0)
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF]), *trials)).pairs.iloc[0]
    assert pair["method"] == "neighbouring windows and trial values"


def test_other_machines_are_never_pooled(tmp_path: Path) -> None:
    trials = [factory.trial(one, b, 0.01 * s) for b in range(3) for one, s in ((JAX, 1), (TF, 2))]
    trials += [
        factory.trial(one, b, 0.01 * s, provenance="machine-two", session="session-2")
        for b in range(3, 6)
        for one, s in ((JAX, 3), (TF, 1))
    ]
    folder = factory.write(tmp_path / "s", factory.session([JAX, TF], 6), *trials)
    factory.write(folder, factory.session([JAX, TF], 6, provenance="machine-two", session="session-2"), file="b.jsonl")
    tables = tables_of(folder)
    assert tables.conditions["launches_count"].tolist() == [3, 3, 3, 3]
    assert dict(zip(tables.pairs["provenance_hash"], tables.pairs["time_ratio"], strict=True)) == pytest.approx(
        {"machine-one": 0.5, "machine-two": 3.0}
    )
    assert tables.pairs["sentence"].iloc[1].startswith("machine machine-: jax takes 3.00 ×")


def test_a_block_on_two_machines_is_no_common_block(tmp_path: Path) -> None:
    trials = [factory.trial(JAX, 0, 0.01), factory.trial(TF, 0, 0.02, provenance="machine-two")]
    tables = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF], 1), *trials))
    assert tables.pairs["blocks_count"].tolist() == [0, 0]
    why = "run on another kind of machine or other versions only, which is not compared"
    assert tables.pairs["note"].tolist() == [f"tf: {why}", f"jax: {why}"]


def test_memory_is_compared_by_difference(tmp_path: Path) -> None:
    trials = []
    for block, extra in enumerate((10.0, 12.0, 14.0)):
        trials.append(factory.trial(JAX, block, 0.01, host_mib=300 + extra))
        trials.append(factory.trial(TF, block, 0.01, host_mib=300))
    pair = tables_of(factory.write(tmp_path / "s", factory.session([JAX, TF]), *trials)).pairs.iloc[0]
    assert pair["host_peak_difference_median_bytes"] == 12 * 2**20
    half = 4.302652729911275 * 2 / math.sqrt(3)
    assert pair["host_peak_difference_low_bytes"] / 2**20 == pytest.approx(12 - half)


def test_an_outlying_block_makes_the_estimates_disagree(tmp_path: Path) -> None:
    values = [1.0, 1.001, 0.999, 1.0, 1.0005, 0.9995, 1.0002, 0.9998, 1.0, 1.5]
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 0.01 * (values[b] if n == 0 else 1), blocks=10)
    pair = tables_of(folder).pairs.iloc[0]
    assert "Hodges–Lehmann" in pair["note"]


def test_a_mode_and_its_fraction_are_one_level(tmp_path: Path) -> None:
    default = factory.condition("tf")
    growth = factory.condition("tf", allocation="growth", allocation__fraction=0.5)
    folder = factory.study(tmp_path / "s", [default, growth], lambda n, _: 0.01 * (1 + n), primary="allocation")
    pair = tables_of(folder).pairs.iloc[0]
    assert (pair["level_a"], pair["level_b"], pair["cell"]) == ("default", "growth · fraction 0.5", "")
    assert pair["time_ratio"] == pytest.approx(0.5)


def test_a_crossed_refinement_is_a_cell(tmp_path: Path) -> None:
    conditions = [
        factory.condition("jax", workload=name, workload__batch_size=size)
        for name in ("mlp", "matmul")
        for size in (1, 2)
    ]
    pairs = tables_of(factory.study(tmp_path / "s", conditions, lambda *_: 0.01, primary="workload")).pairs
    assert pairs["cell"].tolist() == ["batch_size 1", "batch_size 2"]


def test_several_studies_of_one_machine_pool_their_blocks(tmp_path: Path) -> None:
    folders = [
        factory.study(tmp_path / name, [JAX, TF], lambda n, b, speed=speed: speed * (1 + n) + 1e-6 * b, name=name)
        for name, speed in (("a", 0.01), ("b", 0.02))
    ]
    pairs = build_tables(read_journals(folders), 0.02).pairs
    assert pairs["blocks_count"].tolist() == [6]


def test_pure_functions_leave_their_input_alone(tmp_path: Path) -> None:
    journals = read_journals([factory.study(tmp_path / "s", [JAX, TF], lambda *_: 0.01)])
    before = journals.trials.copy()
    build_tables(journals, 0.02)
    pd.testing.assert_frame_equal(journals.trials, before)
