"""The match certificate by kind of work: every test of it, measured and compiled, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.certificate_tests import relative_differences
from analysis.load import read_journals
from analysis.pipeline import analyse
from analysis.tables import Tables, build_tables
from runners.records import Plan, Quantity, TrialRecord
from tests.analysis import records_factory as factory

OWN = 1_000_000


def measured(
    framework: str, block: int = 0, own: int | None = OWN, traced: int | None = OWN, **said: Any
) -> TrialRecord:
    settings = factory.condition(framework, workload__mode="train", **said.pop("settings", {}))
    record = factory.trial(settings, block, 0.01, **said)
    counts = replace(record.report.counts, own_matrix_flops=own, traced_matrix_flops=traced)
    return factory.changed(record, counts=counts)


def compiled(framework: str, chip: str = "v5e", own: int | None = OWN, **plan: Any) -> TrialRecord:
    settings = factory.condition(framework, device="tpu", chip=chip, evidence="compiled")
    values = {"argument_bytes": 4096, "output_bytes": 512, "peak_bytes": 8192, "matrix_flops": OWN, **plan}
    record = factory.trial(settings, 0, None, plan=Plan(**values), losses=(), input_hash=None)
    return factory.changed(record, counts=replace(record.report.counts, own_matrix_flops=own))


def tables_of(folder: Path, *trials: TrialRecord, **design: Any) -> Tables:
    settings = [{key: value for key, value in one.spec.settings.items() if key != "replicate"} for one in trials]
    unique = [one for number, one in enumerate(settings) if one not in settings[:number]]
    folder = factory.write(folder / "s", factory.session(unique, 2, **design), *trials)
    return build_tables(read_journals([folder]), 0.02)


def test_a_line_adds_up_all_trials_of_its_work(tmp_path: Path) -> None:
    trials = [measured("jax", block) for block in range(2)]
    trials += [measured("tf", 0), measured("tf", 1, traced=1_005_000, losses=(2.5, 2.25, 2.0 * (1 - 3e-5)))]
    table = tables_of(tmp_path, *trials).certificate
    assert len(table) == 1
    row = table.iloc[0]
    assert row[["workload", "size", "mode", "dtype", "precision"]].tolist() == [
        "mlp", "default", "train", "float32", "float32",
    ]  # fmt: skip
    assert row[["framework_a", "framework_b", "evidence", "verdict", "reason"]].tolist() == [
        "jax", "tf", "measured", "matched", "",
    ]  # fmt: skip
    tests = ["parameters_equal", "own_flops_equal", "matrix_flops_within", "input_hash_equal", "losses_within"]
    assert row[tests].tolist() == [True] * 5
    assert row[["argument_bytes_equal", "output_bytes_equal"]].isna().all()
    assert (row["comparisons_count"], row["losses_count"]) == (2, 6)
    assert row["largest_loss_difference_ratio"] == pytest.approx(3e-5, rel=1e-6)
    assert row["largest_matrix_flops_difference_ratio"] == pytest.approx(0.005)
    assert row["relative_tolerance_ratio"] == 1e-4


@pytest.mark.parametrize(
    ("theirs", "test", "reason"),
    [
        ({"parameters": 999}, "parameters_equal", "parameters not equal: jax 1,000, tf 999"),
        ({"own_flops": 7}, "own_flops_equal", "own FLOPs not equal: jax 2,000,000, tf 7"),
        ({"input_hash": "other"}, "input_hash_equal", "input hash not equal: jax same-bytes, tf other"),
        ({"traced": 1_010_001}, "matrix_flops_within", "more than 1 %: tf 1,010,001"),
        ({"traced": 989_999}, "matrix_flops_within", "more than 1 %: tf 989,999"),
        (
            {"losses": (2.5, 2.25, 2.001)},
            "losses_within",
            "losses differ by 0.0005 in relative terms, more than 0.0001",
        ),
        ({"losses": (2.5, float("nan"), 2.0)}, "losses_within", "loss 2 is not finite: jax and tf"),
        ({"reference": (2.5, 2.3, 2.0)}, "losses_within", "tf and the reference"),
    ],
)
def test_the_failed_test_is_named(tmp_path: Path, theirs: dict[str, Any], test: str, reason: str) -> None:
    row = tables_of(tmp_path, measured("jax"), measured("tf", **theirs)).certificate.iloc[0]
    assert row["verdict"] == "not matched" and reason in row["reason"]
    others = {"parameters_equal", "own_flops_equal", "matrix_flops_within", "input_hash_equal", "losses_within"} - {
        test
    }
    assert bool(row[test]) is False
    assert row[sorted(others)].tolist() == [True] * 4


@pytest.mark.parametrize(("own", "traced"), [(None, None), (0, 5), (OWN, None)])
def test_work_without_a_count_of_products_is_exempt(tmp_path: Path, own: int | None, traced: int | None) -> None:
    trials = [measured(name, own=own, traced=traced) for name in ("jax", "tf")]
    row = tables_of(tmp_path, *trials).certificate.iloc[0]
    assert row[["matrix_flops_within", "largest_matrix_flops_difference_ratio"]].isna().all()
    assert row["verdict"] == "matched"


@pytest.mark.parametrize(("theirs", "answer"), [(OWN, "matched"), (990_000, "matched"), (989_999, "not matched")])
def test_without_a_count_the_frameworks_are_held_against_each_other(tmp_path: Path, theirs: int, answer: str) -> None:
    tables = tables_of(tmp_path, measured("jax", own=None), measured("tf", own=None, traced=theirs))
    row = tables.certificate.iloc[0]
    assert row["verdict"] == answer
    assert row["largest_matrix_flops_difference_ratio"] == pytest.approx((OWN - theirs) / OWN)
    assert tables.pairs["match"].tolist() == [answer == "matched"]
    if answer != "matched":
        said = "FLOPs of products differ by more than 1 %: jax 1,000,000, tf 989,999"
        assert said in row["reason"] and said in tables.match["match_reason"][0]


def test_a_workload_without_counts_is_told_how_to_give_them(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, *(measured(name, own=None, parameters=None) for name in ("jax", "tf")))
    row = tables.certificate.iloc[0]
    assert row["verdict"] == "not checkable"
    assert row["reason"] == "the workload counts no parameters; counts(workload) on its page would"
    assert "the workload has no parameter count; counts(workload) on its page" in tables.match["match_reason"][0]


@pytest.mark.parametrize(
    ("theirs", "reason"),
    [
        ({"losses": ()}, "no losses of tf"),
        ({"input_hash": None}, "no input hash of tf"),
        ({"outcome": "oom"}, "no block in which both ended ok"),
    ],
)
def test_what_was_not_recorded_cannot_be_checked(tmp_path: Path, theirs: dict[str, Any], reason: str) -> None:
    row = tables_of(tmp_path, measured("jax"), measured("tf", **theirs)).certificate.iloc[0]
    assert (row["verdict"], row["reason"]) == ("not checkable", reason)


@pytest.mark.parametrize(("traced", "match"), [(1_010_000, True), (1_010_001, False), (989_999, False), (None, True)])
def test_pairs_are_judged_by_the_same_rule(tmp_path: Path, traced: int | None, match: bool) -> None:
    tables = tables_of(tmp_path, measured("jax", own=10**6, traced=10**6), measured("tf", own=10**6, traced=traced))
    assert tables.pairs["match"].tolist() == [match]
    assert tables.certificate["verdict"].tolist() == ["matched" if match else "not matched"]
    assert tables.mismatches == (0 if match else 1)
    if not match:
        assert f"the workload's 1,000,000 by more than 1 %: tf's trace {traced:,}" in tables.pairs["match_reason"][0]


def test_a_mismatch_of_frameworks_counts_whatever_the_study_compares(tmp_path: Path) -> None:
    settings = [{"allocation": mode} for mode in ("default", "bfc")]
    trials = [measured("jax", settings=one) for one in settings]
    trials += [measured("tf", settings=one, input_hash="other") for one in settings]
    tables = tables_of(tmp_path, *trials, primary="allocation")
    assert tables.pairs["match"].tolist() == [True, True] and tables.mismatches == 1


def test_one_failure_outweighs_what_is_missing_and_what_held(tmp_path: Path) -> None:
    trials = [measured("jax", block) for block in range(3)]
    trials += [measured("tf", 0), measured("tf", 1, input_hash=None), measured("tf", 2, input_hash="other")]
    row = tables_of(tmp_path, *trials).certificate.iloc[0]
    assert row["verdict"] == "not matched" and not row["input_hash_equal"] and "tf other" in row["reason"]


def test_frameworks_are_certified_whatever_the_study_compares(tmp_path: Path) -> None:
    """Two allocation modes: one line for the pair of frameworks, none for the pair of modes; float16 has its own."""
    settings = [
        {"allocation": mode, "workload__dtype": t} for t in ("float32", "float16") for mode in ("default", "bfc")
    ]
    trials = [measured(name, settings=one) for one in settings for name in ("jax", "tf")]
    table = tables_of(tmp_path, *trials, primary="allocation").certificate
    assert table[["dtype", "comparisons_count", "relative_tolerance_ratio"]].to_numpy().tolist() == [
        ["float32", 2, 1e-4],
        ["float16", 2, 5e-3],
    ]


def test_keras_models_are_workloads_of_their_own(tmp_path: Path) -> None:
    trials = [
        measured(name, settings={"workload": "keras", "workload__model": model})
        for model in ("ResNet50", "VGG16")
        for name in ("jax", "tf")
    ]
    assert tables_of(tmp_path, *trials).certificate["workload"].tolist() == ["keras ResNet50", "keras VGG16"]


def test_compiled_work_is_compared_in_bytes(tmp_path: Path) -> None:
    trials = [compiled(name, chip) for chip in ("v5e", "v6e") for name in ("jax", "tf")]
    table = tables_of(tmp_path, *trials).certificate
    assert len(table) == 1
    row = table.iloc[0]
    assert (row["evidence"], row["device"], row["verdict"], row["comparisons_count"]) == (
        "compiled",
        "tpu",
        "matched",
        2,
    )
    assert row[["argument_bytes_equal", "output_bytes_equal", "matrix_flops_within"]].tolist() == [True] * 3
    assert row[["input_hash_equal", "losses_within", "losses_count"]].isna().all()


@pytest.mark.parametrize(
    ("theirs", "verdict", "reason"),
    [
        ({"argument_bytes": 4097}, "not matched", "argument bytes not equal: jax 4,096, tf 4,097"),
        ({"output_bytes": 511}, "not matched", "output bytes not equal: jax 512, tf 511"),
        ({"matrix_flops": 1_010_001}, "not matched", "more than 1 %: tf 1,010,001"),
        ({"matrix_flops": None}, "not checkable", "no FLOPs of products in tf's lowered module"),
    ],
)
def test_a_failed_compiled_test_is_named(tmp_path: Path, theirs: dict[str, Any], verdict: str, reason: str) -> None:
    row = tables_of(tmp_path, compiled("jax"), compiled("tf", **theirs)).certificate.iloc[0]
    assert row["verdict"] == verdict and reason in row["reason"]


def test_relative_differences_are_over_the_larger_magnitude() -> None:
    a, b = np.array([0.0, -4.0, 1.0, np.inf, 9.0]), np.array([0.0, -5.0, -1.0, np.inf])
    assert relative_differences(a, b).tolist() == pytest.approx([0.0, 0.2, 2.0, np.inf])


def test_retraces_are_columns(tmp_path: Path) -> None:
    record = measured("jax", traced=987)
    memory = {**record.report.memory, "retrace_caches": Quantity(12_345, "smaps_rollup")}
    timings = replace(record.report.timings, retrace_seconds=[0.5, 0.25, 0.0])
    changed = factory.changed(record, memory=memory, timings=timings)
    columns = ["retrace_seconds", "retrace_caches_bytes", "traced_matrix_flops"]
    assert tables_of(tmp_path / "a", changed).trials[columns].to_numpy().tolist() == [[0.75, 12_345, 987]]
    assert tables_of(tmp_path / "b", measured("tf", traced=None)).trials[columns].isna().all(axis=None)


@pytest.mark.usefixtures("svg_only")
def test_the_certificate_is_written_and_shown(tmp_path: Path) -> None:
    trials = [measured("jax"), measured("tf", parameters=999)]
    settings = [{key: value for key, value in one.spec.settings.items() if key != "replicate"} for one in trials]
    folder = factory.write(tmp_path / "s", factory.session(settings, 1), *trials)
    section = analyse([folder], folder).report.read_text().partition('<h2 id="match">')[2].partition("<h2")[0]
    assert "parameters not equal: jax 1,000, tf 999" in section and '<td class="word">jax, tf</td>' in section
    line = (folder / "tables" / "certificate.csv").read_text().splitlines()[1]
    assert ",measured,cpu,mlp,default,train,float32,float32,jax,tf,1,false,true,true,true,true,,," in line
