"""The table of conditions and the warnings, on studies whose values are known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from analysis.load import read_journals
from analysis.tables import Tables, build_tables
from tests.analysis import records_factory as factory

JAX = factory.condition("jax")


def tables_of(folder: Path) -> Tables:
    return build_tables(read_journals([folder]), 0.02)


def test_tables_follow_the_design_not_the_order_of_trials(tmp_path: Path) -> None:
    conditions = [factory.condition(name, workload__batch_size=size) for size in (8, 4) for name in ("tf", "jax")]
    lines = [factory.trial(one, block, 0.01) for block in range(2) for one in reversed(conditions)]
    tables = tables_of(factory.write(tmp_path / "s", factory.session(conditions, 2), *lines))
    expected = ["tf · batch_size 8", "jax · batch_size 8", "tf · batch_size 4", "jax · batch_size 4"]
    assert tables.conditions["label"].tolist() == expected
    assert tables.outcomes["label"].tolist() == expected
    pairs = tables.pairs[["cell", "level_a", "level_b"]].to_numpy().tolist()
    assert pairs == [["batch_size 8", "tf", "jax"], ["batch_size 4", "tf", "jax"]]
    assert tables.trials["block"].tolist() == [0, 1] * 4


def test_survivors_are_averaged_and_failures_counted(tmp_path: Path) -> None:
    """Case 32: 100 ms, 100 ms, oom is a mean of 100 ms with n = 2 and an oom rate of a third."""
    folder = factory.study(tmp_path / "s", [JAX], lambda _, block: None if block == 2 else 0.1)
    row = tables_of(folder).conditions.iloc[0]
    assert row["step_seconds_mean"] == pytest.approx(0.1)
    assert (row["launches_count"], row["attempts_count"], row["oom_count"]) == (2, 3, 1)
    assert row["oom_rate_ratio"] == pytest.approx(1 / 3)


def test_one_replicate_beside_three(tmp_path: Path) -> None:
    """Case 31: no interval, and n = 1 in words."""
    trials = [factory.trial(JAX, block, 0.01 + 0.001 * block) for block in range(3)]
    trials.append(factory.trial(factory.condition("tf"), 0, 0.01))
    tables = tables_of(factory.write(tmp_path / "s", factory.session([JAX, factory.condition("tf")]), *trials))
    three, one = tables.conditions.to_dict("records")
    assert math.isnan(one["step_seconds_low"]) and one["interval_note"] == "n = 1: no interval"
    # 10, 11, 12 ms: sd 1 ms, t(.975, 2) = 4.302653, error of the mean's logarithm 1/√3 ÷ 11
    factor = math.exp(4.302652729911275 / math.sqrt(3) / 11)
    assert (three["step_seconds_low"], three["step_seconds_high"]) == pytest.approx((0.011 / factor, 0.011 * factor))
    pair = tables.pairs.iloc[0]
    assert pair["verdict"] == "n = 1: no interval" and math.isnan(pair["time_ratio_low"])
    assert pair["sentence"] == "jax takes 1.000 × the time of tf in the one common block (n = 1: no interval)"


def test_times_average_arithmetically_and_rates_harmonically(tmp_path: Path) -> None:
    """Case 34: 1 and 100 average to 50.5; the throughput that goes with it is work over mean time, not 128.6·10³."""
    folder = factory.study(tmp_path / "s", [JAX], lambda _, block: (0.001, 0.1)[block], blocks=2)
    row = tables_of(folder).conditions.iloc[0]
    assert row["step_seconds_mean"] == pytest.approx(0.0505)
    assert row["examples_per_second_harmonic_mean"] == pytest.approx(256 / 0.0505)


def test_an_interval_of_a_time_never_reaches_zero(tmp_path: Path) -> None:
    """1 and 100 ms: around the mean of 50.5 ms Student's interval would begin at −578 ms."""
    folder = factory.study(tmp_path / "s", [JAX], lambda _, block: (0.001, 0.1)[block], blocks=2)
    row = tables_of(folder).conditions.iloc[0]
    # sd 99/√2 ms, t(.975, 1) = 12.7062: 12.7062 · 49.5 / 50.5 on the log scale
    factor = math.exp(12.706204736174694 * 49.5 / 50.5)
    assert (row["step_seconds_low"], row["step_seconds_high"]) == pytest.approx((0.0505 / factor, 0.0505 * factor))
    assert row["examples_per_second_high"] == pytest.approx(256 / row["step_seconds_low"])
    assert row["examples_per_second_low"] == pytest.approx(256 / row["step_seconds_high"])


def test_a_partly_failed_grid_has_all_its_rows(tmp_path: Path) -> None:
    """Case 36."""
    conditions = [
        factory.condition(framework, workload__batch_size=size) for framework in ("jax", "tf") for size in (1, 2)
    ]
    tables = tables_of(factory.study(tmp_path / "s", conditions, lambda number, _: None if number == 3 else 0.01))
    assert tables.conditions["launches_count"].tolist() == [3, 3, 3, 0]
    assert tables.conditions["interval_note"].iloc[3] == "n = 0: no value"
    assert tables.pairs["note"].tolist() == ["", "tf: 3 oom"]


def test_missing_memory_is_missing_and_not_zero(tmp_path: Path) -> None:
    trials = [factory.trial(JAX, block, 0.01, host_mib=None, device_mib=None) for block in range(2)]
    row = tables_of(factory.write(tmp_path / "s", factory.session([JAX]), *trials)).conditions.iloc[0]
    assert math.isnan(row["host_peak_above_baseline_median_bytes"]) and math.isnan(row["device_live_peak_median_bytes"])


def test_compiled_trials_never_enter_measured_tables(tmp_path: Path) -> None:
    from runners.records import Plan

    planned = factory.condition("jax", device="tpu", chip="v5e", evidence="compiled")
    lines = [
        factory.trial(JAX, 0, 0.01),
        factory.trial(planned, 0, None, plan=Plan(peak_bytes=5 * 2**20, fits=True, predicted_step_seconds=0.002)),
    ]
    tables = tables_of(factory.write(tmp_path / "s", factory.session([JAX, planned], 1), *lines))
    assert tables.conditions["device"].tolist() == ["cpu"]
    assert tables.compiled["planned_peak_bytes"].tolist() == [5 * 2**20]
    assert tables.compiled["label"].tolist() == ["jax"]
    assert tables.pairs.empty
    assert not any(name.startswith(("planned", "predicted")) for name in tables.conditions.columns)


def test_progress_says_what_is_left(tmp_path: Path) -> None:
    """Case 27: 3 of 64."""
    conditions = [factory.condition("jax", workload__batch_size=size) for size in range(1, 33)]
    lines = [factory.trial(conditions[number], 0, 0.01) for number in range(3)]
    progress = tables_of(factory.write(tmp_path / "s", factory.session(conditions, 2), *lines)).progress
    assert (progress["done_trials_count"].sum(), progress["planned_trials_count"].sum()) == (3, 64)


def test_a_condition_that_cannot_be_launched_needs_one_record(tmp_path: Path) -> None:
    growth = factory.condition("jax", allocation="growth")
    unmeant = factory.trial(growth, 0, None, outcome="not_applicable", reason="no pool", start="not launched")
    lines = [factory.trial(JAX, block, 0.01) for block in range(3)]
    progress = tables_of(factory.write(tmp_path / "s", factory.session([JAX, growth], 3), unmeant, *lines)).progress
    assert progress["missing_trials_count"].tolist() == [0, 0]


def warnings_of(tmp_path: Path, *trials: object) -> dict[str, str]:
    folder = factory.write(tmp_path / "s", factory.session([JAX], len(trials)), *trials)  # type: ignore[arg-type]
    found = tables_of(folder).warnings
    return dict(zip(found["warning"], found["text"], strict=True))


def test_a_calm_study_warns_of_nothing(tmp_path: Path) -> None:
    assert warnings_of(tmp_path, *[factory.trial(JAX, b, 0.004 + 1e-6 * (b % 2), steps=50) for b in range(8)]) == {}


def test_launch_variation(tmp_path: Path) -> None:
    # 90, 100, 110: sd 10, CoV 10 %
    text = warnings_of(tmp_path, *[factory.trial(JAX, b, 0.09 + 0.01 * b) for b in range(3)])["launch_variation"]
    assert text == "launches differ by 10.0% (standard deviation ÷ mean of 3)"


def test_order_trend_needs_six_launches(tmp_path: Path) -> None:
    rising = [factory.trial(JAX, b, 0.004 + 1e-5 * b) for b in range(6)]
    # all 6! orders are equally likely: two-sided p = 2 / 720
    assert warnings_of(tmp_path / "six", *rising)["order_trend"].endswith("(p = 0.0028)")
    assert "order_trend" not in warnings_of(tmp_path / "five", *rising[:5])


def test_autocorrelation_of_windows(tmp_path: Path) -> None:
    slow_wave = [0.2 + 0.001 * math.sin(index / 5) for index in range(30)]
    assert "autocorrelation" in warnings_of(tmp_path, factory.trial(JAX, 0, windows=slow_wave))


def test_outliers_are_classified_and_kept(tmp_path: Path) -> None:
    # quartiles 0.2475 and 0.2525 at most: 0.5 is severe; one of 10 windows is 10 %
    windows = [0.248, 0.249, 0.250, 0.251, 0.252, 0.248, 0.249, 0.250, 0.251, 0.5]
    trial = factory.trial(JAX, 0, windows=windows, steps=1)
    assert warnings_of(tmp_path, trial)["outliers"] == "1 severe and 0 mild outliers in 10 windows, all kept"
    tables = tables_of(tmp_path / "s")
    assert tables.conditions["step_seconds_mean"].iloc[0] == pytest.approx(0.25)


def test_short_windows_and_recorded_warnings(tmp_path: Path) -> None:
    trials = [factory.trial(JAX, b, 0.001, steps=20, warnings=["clock is coarse"]) for b in range(2)]
    found = warnings_of(tmp_path, *trials)
    assert found["short_windows"].startswith("windows as short as 20.0 ms")
    assert found["recorded"] == "clock is coarse (2 trials)"


def test_three_thousand_levels(tmp_path: Path) -> None:
    """Case 37: each level is compared with the first; the effects are all there."""
    conditions = [factory.condition("jax", workload__x=number) for number in range(3000)]
    folder = factory.study(
        tmp_path / "s", conditions, lambda number, _: 0.001 * (1 + number), blocks=2, primary="workload.x"
    )
    tables = tables_of(folder)
    assert len(tables.conditions) == 3000 and len(tables.pairs) == 2999
    assert tables.pairs["time_ratio"].iloc[-1] == pytest.approx(3000)
