"""Journals as they may come: levels that look like nothing, damaged lines, retries, duplicates, missing values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analysis.columns import COLUMNS, CONTRACT, as_markdown
from analysis.load import Journals, read_journals
from analysis.request import RequestError
from analysis.tables import build_tables, write_tables
from runners.lines import encode_line
from runners.records import Plan
from tests.analysis import records_factory as factory

CONTRACT_NAMES = """trial_id, block, order, framework, framework_version, compile, device, chip, allocation,
    allocation_effective, workload, batch_size, dtype, evidence, outcome, phase, reason, step_seconds,
    examples_per_second, compile_seconds, first_step_seconds, host_baseline_bytes, host_peak_bytes,
    device_live_peak_bytes, device_pool_peak_bytes, process_peak_bytes, planned_argument_bytes, planned_output_bytes,
    planned_alias_bytes, planned_temp_bytes, planned_code_bytes, planned_peak_bytes, planned_flops,
    planned_bytes_accessed, predicted_step_seconds, usable_bytes, fits, own_flops, parameters, traces, loss_first,
    loss_last, warnings, seed"""

ODD_NAMES = ["None", "none", "null", "NA", "n/a", "off"]


def read(folder: Path) -> Journals:
    return read_journals([folder])


def written(folder: Path) -> pd.DataFrame:
    """trials.csv as a careful reader sees it: every cell a string, the empty one for missing."""
    journals = read(folder)
    write_tables(journals, build_tables(journals, 0.02), folder)
    return pd.read_csv(folder / "trials.csv", keep_default_na=False, dtype=str)


def test_columns_keep_their_names_and_order(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", workload__shape__width=64), factory.condition("jax")]
    table = written(factory.study(tmp_path / "s", conditions, lambda *_: 0.01, blocks=1))
    assert [column.name for column in CONTRACT] == [name.strip() for name in CONTRACT_NAMES.split(",")]
    assert list(table.columns) == [*(column.name for column in COLUMNS), "workload_shape_width"]
    assert sorted(table["workload_shape_width"]) == ["512", "64"]


def test_every_column_is_documented() -> None:
    text = as_markdown()
    assert all(f"| `{column.name}` |" in text and column.meaning and column.missing for column in COLUMNS)


def test_values_of_a_trial(tmp_path: Path) -> None:
    plan = Plan(argument_bytes=10, temp_bytes=0, flops=2.5e6, fits=True)
    one = factory.trial(factory.condition("tf"), 2, 0.004, order=5, plan=plan, device_mib=44, warnings=["a", "b"])
    row = written(factory.write(tmp_path / "s", factory.session([factory.condition("tf")]), one)).iloc[0]
    assert float(row["step_seconds"]) == pytest.approx(0.004, rel=1e-12)
    assert float(row["examples_per_second"]) == pytest.approx(256 / 0.004, rel=1e-12)
    expected = {
        "block": "2",
        "order": "5",
        "framework": "tf",
        "compile": "xla",
        "framework_version": "2.21.0",
        "host_peak_above_baseline_bytes": str(300 * 2**20),
        "device_live_peak_bytes": str(44 * 2**20),
        "planned_argument_bytes": "10",
        "planned_temp_bytes": "0",
        "planned_output_bytes": "",
        "fits": "true",
        "loss_first": "2.5",
        "loss_last": "0.5",
        "warnings": "a; b",
        "minor_faults_per_step": "5.0",
        "system_seconds_per_step": "0.0025",
        "chip": "",
        "phase": "",
        "process_peak_bytes": "",
    }
    assert {name: row[name] for name in expected} == expected


def test_odd_level_names_stay_six_levels(tmp_path: Path) -> None:
    """Case 29: None, none, null, NA, n/a and off are names; the null level is a seventh, and is not lost either."""
    conditions = [factory.condition("jax", allocation=name) for name in ODD_NAMES]
    conditions.append(factory.condition("jax", allocation="default", workload__variant=None))
    folder = factory.study(
        tmp_path / "s", conditions, lambda number, _: 0.001 * (number + 1), blocks=2, primary="allocation"
    )
    table = written(folder)
    assert sorted(set(table["allocation"])) == sorted([*ODD_NAMES, "default"])
    tables = build_tables(read(folder), 0.02)
    assert len(tables.conditions) == 7
    assert tables.conditions["step_seconds_mean"].tolist() == pytest.approx([0.001 * n for n in range(1, 8)])
    assert len(set(tables.conditions["label"])) == 7


def test_null_level_survives_grouping(tmp_path: Path) -> None:
    conditions = [factory.condition("jax", workload__variant=level) for level in (None, "None", "off")]
    folder = factory.study(
        tmp_path / "s", conditions, lambda number, _: 0.001 * (number + 1), primary="workload.variant"
    )
    assert sorted(written(folder)["workload_variant"]) == [""] * 3 + ["None"] * 3 + ["off"] * 3
    pairs = build_tables(read(folder), 0.02).pairs
    assert list(zip(pairs["level_a"], pairs["level_b"], strict=True)) == [
        ("variant unset", "variant None"),
        ("variant unset", "variant off"),
        ("variant None", "variant off"),
    ]


def test_damaged_lines_cost_only_themselves(tmp_path: Path) -> None:
    """Case 30: byte order mark, NUL padding, a torn last line, an altered line, a line of something else."""
    one = factory.condition("jax")
    lines = [encode_line(factory.session([one], 5)), *(encode_line(factory.trial(one, block)) for block in range(4))]
    altered = encode_line(factory.trial(one, 9)).replace('"block":9', '"block":8')
    other = encode_line({"kind": "note", "text": "hello"})
    wild = encode_line({"kind": "trial", "spec": {"schema_version": 1}})
    newer = encode_line(replace(factory.trial(one, 7), spec=replace(factory.trial(one, 7).spec, schema_version=99)))
    content = b"\xef\xbb\xbf" + lines[0].encode() + b"\x00" * 64 + lines[1].encode() + lines[2].encode()
    content += b"\x00" * 32 + b"\n" + altered.encode() + other.encode() + wild.encode() + newer.encode()
    content += b"\xff\xfe\n" + lines[3].encode() + lines[4].encode()[:200]
    (tmp_path / "s" / "journal").mkdir(parents=True)
    (tmp_path / "s" / "journal" / "torn.jsonl").write_bytes(content)
    journals = read(tmp_path / "s")
    assert sorted(journals.trials["block"]) == [0, 1, 2]
    assert len(journals.sessions) == 1
    bad = journals.bad_lines
    assert list(bad["line_number"]) == [1, 2, 4, 5, 6, 7, 8, 9, 11]
    assert list(bad["kept"]) == [True, True, *[False] * 7]
    assert set(bad["file"]) == {"s/journal/torn.jsonl"}
    said = dict(zip(bad["line_number"], bad["problem"], strict=True))
    assert "byte order mark" in said[1] and "64 NUL bytes" in said[2] and "32 NUL bytes" in said[4]
    assert "checksum" in said[5] and "'note'" in said[6] and "schema" in said[7] and "99" in said[8]
    assert "JSON" in said[11]


def test_same_id_many_times_counts_once(tmp_path: Path) -> None:
    """Case 35."""
    one = factory.condition("jax")
    folder = factory.write(tmp_path / "s", factory.session([one], 1), *[factory.trial(one, 0)] * 6)
    journals = read(folder)
    assert (len(journals.trials), journals.duplicates, len(journals.superseded)) == (1, 5, 0)
    assert build_tables(journals, 0.02).conditions["launches_count"].tolist() == [1]


def test_repeated_levels_of_a_sweep_are_replicates(tmp_path: Path) -> None:
    """Case 35: x=1,1,2 is one condition with two replicates and one with one."""
    one, two = factory.condition("jax", workload__x=1), factory.condition("jax", workload__x=2)
    session = factory.session([one, two], 1, primary="workload.x")
    session.design["conditions"].insert(
        1, {"condition_id": factory.condition_id(one, 1), "replicate": 1, "settings": dict(one)}
    )
    trials = [factory.trial(one, 0, 0.01), factory.trial(one, 0, 0.02, replicate=1), factory.trial(two, 0, 0.03)]
    tables = build_tables(read(factory.write(tmp_path / "s", session, *trials)), 0.02)
    assert tables.conditions["launches_count"].tolist() == [2, 1]
    assert tables.progress["planned_trials_count"].tolist() == [2, 1]
    assert tables.pairs["blocks_count"].tolist() == [1]
    assert tables.pairs["time_ratio"].tolist() == pytest.approx([1 / 3])


def test_a_good_retry_replaces_failures_and_is_counted(tmp_path: Path) -> None:
    one = factory.condition("jax")
    failed = factory.trial(one, 0, outcome="invalid", reason="retraced", started="2026-01-01T00:00:01")
    good = factory.trial(one, 0, 0.01, started="2026-01-01T00:00:02")
    late = factory.trial(one, 0, outcome="crash", reason="signal", started="2026-01-01T00:00:03")
    journals = read(factory.write(tmp_path / "s", factory.session([one], 1), late, good, failed))
    assert journals.trials["outcome"].tolist() == ["ok"]
    tables = build_tables(journals, 0.02)
    assert sorted(tables.superseded["reason"]) == ["retraced", "signal"]
    assert tables.conditions["superseded_count"].tolist() == [2]
    assert tables.conditions["attempts_count"].tolist() == [1]


def test_of_failures_only_the_last_counts(tmp_path: Path) -> None:
    one = factory.condition("jax")
    first = factory.trial(one, 0, outcome="crash", reason="first", started="2026-01-01T00:00:01")
    second = factory.trial(one, 0, outcome="timeout", reason="second", started="2026-01-01T00:00:02")
    journals = read(factory.write(tmp_path / "s", factory.session([one], 1), second, first))
    assert journals.trials["reason"].tolist() == ["second"]


def test_the_same_trial_id_in_another_study_is_another_trial(tmp_path: Path) -> None:
    one = factory.condition("jax")
    first = factory.write(tmp_path / "a", factory.session([one], 1, name="a"), factory.trial(one, 0, 0.01))
    second = factory.write(tmp_path / "b", factory.session([one], 1, name="b"), factory.trial(one, 0, 0.03))
    copied = factory.write(tmp_path / "c", factory.session([one], 1, name="a"), factory.trial(one, 0, 0.01))
    journals = read_journals([first, second, copied])
    assert (len(journals.trials), journals.duplicates) == (2, 1)
    tables = build_tables(journals, 0.02)
    assert tables.conditions["step_seconds_mean"].tolist() == pytest.approx([0.02])


def test_failed_trials_have_no_value(tmp_path: Path) -> None:
    """A trial that failed in the middle has windows, but no step time that anyone could average."""
    one = factory.condition("jax")
    half = replace(factory.trial(one, 0, 0.01), outcome=factory.trial(one, 0, outcome="crash").outcome)
    row = written(factory.write(tmp_path / "s", factory.session([one], 1), half)).iloc[0]
    assert (row["outcome"], row["step_seconds"], row["examples_per_second"]) == ("crash", "", "")
    assert row["windows"] == "3"


def test_numbers_that_are_not_finite(tmp_path: Path) -> None:
    one = factory.condition("jax")
    nan, inf = float("nan"), float("inf")
    diverged = factory.trial(one, 0, 0.01, losses=[nan, inf, 1.0])
    timeless = factory.trial(one, 1, windows=[nan, nan])
    odd = factory.trial(one, 2, windows=[nan, 0.5, 0.5], steps=50)
    table = written(factory.write(tmp_path / "s", factory.session([one], 3), diverged, timeless, odd))
    assert table["loss_finite"].tolist() == ["false", "true", "true"]
    assert table["loss_first"].tolist() == ["", "2.5", "2.5"]
    assert table["step_seconds"].tolist() == ["0.01", "", "0.01"]


def test_an_impossible_integer_is_a_bad_line(tmp_path: Path) -> None:
    one = factory.condition("jax")
    journals = read(factory.write(tmp_path / "s", factory.session([one]), factory.trial(one, 0, parameters=2**70)))
    assert journals.trials.empty
    assert "64-bit" in journals.bad_lines["problem"].iloc[0]


def test_types_are_explicit_even_without_rows(tmp_path: Path) -> None:
    trials = read(factory.write(tmp_path / "s", factory.session([factory.condition()]))).trials
    assert {column.name: str(trials[column.name].dtype) for column in COLUMNS} == {c.name: c.dtype for c in COLUMNS}


def test_numeric_levels_stay_numbers(tmp_path: Path) -> None:
    conditions = [
        factory.condition("jax", workload__rate=rate, workload__flag=flag) for rate, flag in ((1, True), (0.5, False))
    ]
    table = read(factory.study(tmp_path / "s", conditions, lambda *_: 0.01, blocks=1)).trials
    assert (str(table["workload_rate"].dtype), str(table["workload_flag"].dtype)) == ("float64", "boolean")


def test_a_journal_without_its_session_line_is_still_read(tmp_path: Path) -> None:
    conditions = [factory.condition("jax"), factory.condition("tf", workload__shape__width=512)]
    lines = [factory.trial(one, block, 0.01) for block in range(3) for one in conditions]
    tables = build_tables(read(factory.write(tmp_path / "s", *lines)), 0.02)
    assert tables.pairs["blocks_count"].tolist() == [3]
    assert set(tables.trials["study"]) == {"s"}


@pytest.mark.parametrize("make", [lambda p: p / "absent", lambda p: p])
def test_wrong_folders_are_named(tmp_path: Path, make: object) -> None:
    folder = make(tmp_path)  # type: ignore[operator]
    with pytest.raises(RequestError, match=str(folder)):
        read(folder)


def test_checksums_are_verified(tmp_path: Path) -> None:
    line = json.loads(encode_line(factory.trial(factory.condition(), 0)))
    line["outcome"]["kind"] = "oom"
    (tmp_path / "journal").mkdir()
    (tmp_path / "journal" / "a.jsonl").write_text(json.dumps(line) + "\n")
    journals = read(tmp_path)
    assert journals.trials.empty and "altered" in journals.bad_lines["problem"].iloc[0]
