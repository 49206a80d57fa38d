"""Studies that nobody wishes for, through the whole analysis: the right values come out, and the report says what is
missing. Each was met by people who compare programs; most have made a reporting tool crash."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.pipeline import Analysis, analyse
from runners.lines import encode_line
from tests.analysis import records_factory as factory
from tests.analysis.test_report import visible

JAX, TF = factory.condition("jax"), factory.condition("tf")
ODD_NAMES = ("None", "none", "null", "NA", "n/a", "off", "nan", "")

pytestmark = pytest.mark.usefixtures("svg_only")


def finished(folder: Path) -> tuple[Analysis, str]:
    """The analysis and what a person reads in the report."""
    analysis = analyse([folder], folder)
    return analysis, visible(analysis.report.read_text(encoding="utf-8"))


def test_an_empty_study(tmp_path: Path) -> None:
    analysis, text = finished(factory.write(tmp_path / "s", factory.session([JAX, TF], 4)))
    assert len(analysis.tables.trials) == 0
    assert analysis.tables.progress["missing_trials_count"].tolist() == [4, 4]
    assert "0 of 8 planned trials are done." in text and "there is nothing to compare" in text


def test_a_journal_without_a_byte(tmp_path: Path) -> None:
    (tmp_path / "s" / "journal").mkdir(parents=True)
    (tmp_path / "s" / "journal" / "a.jsonl").touch()
    _, text = finished(tmp_path / "s")
    assert "0 trials." in text and "No session line was readable" in text


def test_all_failed(tmp_path: Path) -> None:
    trials = [
        factory.trial(one, b, outcome=kind, phase="compile", reason="r", text=f"{kind} happened")
        for b, kind in enumerate(("oom", "crash", "timeout", "invalid", "config", "unavailable", "not_applicable"))
        for one in (JAX, TF)
    ]
    analysis, text = finished(factory.write(tmp_path / "s", factory.session([JAX, TF], 7), *trials))
    row = analysis.tables.conditions.iloc[0]
    assert (row["ok_count"], row["oom_count"], row["crash_count"], row["attempts_count"]) == (0, 1, 1, 7)
    assert row["oom_rate_ratio"] == pytest.approx(1 / 7)
    assert "jax and tf have no common block" in text and text.count("timeout happened") == 2


def test_one_framework_only(tmp_path: Path) -> None:
    analysis, text = finished(factory.study(tmp_path / "s", [JAX], lambda _, b: 0.01 + 0.001 * b))
    assert analysis.tables.conditions["step_seconds_mean"].tolist() == pytest.approx([0.011])
    assert "There is no pair of conditions to compare." in text


def test_one_replicate(tmp_path: Path) -> None:
    analysis, text = finished(factory.study(tmp_path / "s", [JAX, TF], lambda n, _: 0.01 * (1 + n), blocks=1))
    pair = analysis.tables.pairs.iloc[0]
    assert (pair["time_ratio"], pair["verdict"]) == (pytest.approx(0.5), "n = 1: no interval")
    assert str(pair["time_ratio_low"]) == "nan"
    assert "in the one common block (n = 1: no interval)" in text


def test_levels_named_like_nothing(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", allocation=name) for name in ODD_NAMES]
    folder = factory.study(tmp_path / "s", conditions, lambda n, _: 0.001 * (n + 1), blocks=2, primary="allocation")
    analysis, text = finished(folder)
    assert analysis.tables.conditions["step_seconds_mean"].tolist() == pytest.approx([0.001 * n for n in range(1, 9)])
    with (folder / "tables" / "conditions.csv").open(newline="") as stream:
        assert [row["allocation"] for row in csv.DictReader(stream)] == list(ODD_NAMES)
    assert len(analysis.tables.pairs) == 8 * 7 // 2
    assert "None takes 0.50 × the time of none" in text and "none takes 0.67 × the time of null" in text


def test_unicode_and_spaces_in_every_name(tmp_path: Path) -> None:
    name = "größe  配置 🚀 $x^2$"
    conditions = [factory.condition(framework, allocation=name) for framework in ("jax", "tf")]
    folder = factory.study(tmp_path / "s 配置", conditions, lambda n, b: 0.01 * (1 + n) + 1e-5 * b, name=name)
    analysis, text = finished(folder)
    assert set(analysis.tables.conditions["allocation"]) == {name}
    assert "größe 配置 🚀 $x^2$" in text


def test_nan_and_infinity(tmp_path: Path) -> None:
    nan, inf = float("nan"), float("inf")
    trials = [
        factory.trial(JAX, 0, windows=[nan, 0.5, 0.5]),
        factory.trial(JAX, 1, windows=[inf, inf, inf]),
        factory.trial(JAX, 2, 0.01, losses=[nan, inf, 1.0]),
        *(factory.trial(TF, b, 0.02) for b in range(3)),
    ]
    analysis, text = finished(factory.write(tmp_path / "s", factory.session([JAX, TF], 3), *trials))
    row = analysis.tables.conditions.iloc[0]
    assert (row["launches_count"], row["step_seconds_mean"]) == (2, pytest.approx(0.01))
    pair = analysis.tables.pairs.iloc[0]
    assert (pair["blocks_count"], pair["match"]) == (2, False)
    assert "loss 1 is not finite" in text


def test_numeric_levels_sort_as_numbers(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", workload__batch_size=size) for size in (2, 10, 100)]
    folder = factory.study(tmp_path / "s", conditions, lambda n, _: 0.01 * (n + 1), primary="workload.batch_size")
    analysis, _ = finished(folder)
    assert analysis.tables.conditions["batch_size"].tolist() == [2, 10, 100]
    assert analysis.tables.pairs["level_a"].tolist() == ["batch_size 2", "batch_size 2", "batch_size 10"]


def test_duplicate_ids(tmp_path: Path) -> None:
    trials = [factory.trial(JAX, 0, 0.01)] * 6 + [factory.trial(TF, 0, 0.02)]
    analysis, text = finished(factory.write(tmp_path / "s", factory.session([JAX, TF], 1), *trials))
    assert analysis.tables.conditions["launches_count"].tolist() == [1, 1]
    assert "5 lines occurred before, byte for byte, and count once." in text


def test_a_torn_journal(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 0.01 * (1 + n) + 1e-5 * b)
    path = folder / "journal" / "a.jsonl"
    path.write_bytes(path.read_bytes()[:-200])
    analysis, text = finished(folder)
    assert analysis.tables.conditions["launches_count"].tolist() == [3, 2]
    assert "5 of 6 planned trials are done." in text
    assert "1 journal line could not be read as written" in text and "a.jsonl 7 lost" in text


def test_half_a_grid(tmp_path: Path) -> None:
    """Only the cells that both sides have are compared; the others are gaps, each with its reason."""
    jax = [factory.condition("jax", workload__batch_size=size) for size in (1, 2, 3, 4)]
    tf = [factory.condition("tf", workload__batch_size=size) for size in (1, 2, 3, 4)]
    trials = [
        factory.trial(one, b, 0.01 * (1 + n // 4) * (1 + n % 4) * (1 + 1e-3 * b))
        for b in range(3)
        for n, one in enumerate([*jax, *tf])
        if n not in (2, 7)
    ]
    trials += [factory.trial(jax[2], b, outcome="oom") for b in range(3)]
    analysis, text = finished(factory.write(tmp_path / "s", factory.session([*jax, *tf], 3), *trials))
    assert analysis.tables.pairs["time_ratio"].tolist()[:2] == pytest.approx([0.5, 0.5])
    row = analysis.tables.common_cells.iloc[0]
    assert (row["common_cells_count"], row["missing_cells_count"]) == (2, 2)
    assert row["time_ratio_geometric_mean"] == pytest.approx(0.5)
    assert "batch_size 3: jax and tf have no common block (jax: 3 oom)" in text
    assert "batch_size 4: jax and tf have no common block (tf: not run)" in text
    assert "tf · batch_size 4: 0 of 3 trials, the others have not been run." in text


def test_three_thousand_levels(tmp_path: Path) -> None:
    """Case 37, 12,000 rows: every level is compared with the first, tables are whole, figures show the extremes."""
    conditions = [factory.condition("jax", workload__x=level) for level in range(3000)]
    folder = factory.study(tmp_path / "s", conditions, step_of(conditions), blocks=4, primary="workload.x")
    analysis, text = finished(folder)
    assert len(analysis.tables.conditions) == 3000
    assert analysis.tables.conditions["step_seconds_mean"].iloc[2999] == pytest.approx(0.004 * 1.2999)
    assert len(analysis.tables.pairs) == 2999
    assert analysis.tables.pairs["time_ratio"].iloc[-1] == pytest.approx(1.2999)
    assert "The first 500 of 3000 rows; all are in tables/conditions.csv." in text
    assert (folder / "trials.csv").read_text().count("\n") == 12_001


def step_of(conditions: list[dict[str, Any]]) -> Callable[[int, int], float]:
    return lambda number, _: 0.004 * (1 + 1e-4 * (number % len(conditions)))


def test_lines_of_something_else(tmp_path: Path) -> None:
    folder = factory.write(tmp_path / "s", factory.session([JAX], 1), factory.trial(JAX, 0, 0.01))
    with (folder / "journal" / "b.jsonl").open("w") as stream:
        stream.write("[1, 2]\nnull\n{}\n" + encode_line({"kind": "trial"}) + encode_line({"kind": "session"}))
    analysis, text = finished(folder)
    assert analysis.tables.conditions["launches_count"].tolist() == [1]
    assert len(analysis.journals.bad_lines) == 5 and "5 journal lines could not be read" in text
