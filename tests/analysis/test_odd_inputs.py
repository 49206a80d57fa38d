"""Studies that nobody wishes for, through the whole analysis: the right values come out, and the report says what is
missing. Each was met by people who compare programs; most have made a reporting tool crash."""

from __future__ import annotations

import csv
import hashlib
import json
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from analysis.pipeline import Analysis, analyse
from runners.lines import decode_line, encode_line
from runners.records import SessionRecord, TrialRecord
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


def altered(record: SessionRecord | TrialRecord, place: str, value: Any) -> str:
    """The record's line with one field replaced and a checksum that fits: a program wrote it so."""
    body = decode_line(encode_line(record))
    part = body
    *path, last = place.split(".")
    for key in path:
        part = part[key]
    part[last] = value
    return encode_line(body)


def with_altered(folder: Path, place: str, value: Any) -> Path:
    """Two blocks of jax and tf, of which jax's second trial says something else."""
    trials = [factory.trial(one, b, 0.01 * (1 + n)) for b in range(2) for n, one in enumerate((JAX, TF))]
    factory.write(folder, factory.session([JAX, TF], 2), *(trial for n, trial in enumerate(trials) if n != 2))
    with (folder / "journal" / "a.jsonl").open("a", encoding="utf-8") as stream:
        stream.write(altered(trials[2], place, value))
    return folder


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("report.timings.window_seconds", [0.5, -1.0, 0.5], "window 1 of -1 s, which no clock shows"),
        ("report.timings.window_seconds", [1e308] * 3, "window 0 of 1e+308 s"),
        ("report.timings.window_seconds", [5e-324] * 3, "window 0 of 4.94066e-324 s"),
        ("report.timings.steps_per_window", -5, "-5 is no 64-bit integer from 0 on"),
        ("report.timings.compile_seconds", -3.0, "compile_seconds -3, which no clock shows"),
        ("report.timings.steady", "yes", "'yes' is neither true nor false"),
        ("elapsed_seconds", -100.0, "elapsed_seconds -100"),
        ("report.memory.host_peak.value", -5, "-5 is no 64-bit integer"),
        ("report.counts.examples_per_step", -256, "-256 is no 64-bit integer"),
        ("spec.block", None, "block None is no place in a design"),
        ("spec.block", -3, "-3 is no 64-bit integer"),
        ("spec.block", 2**62, "block 4611686018427387904 is no place"),
        ("spec.evidence", "imagined", "'imagined' is not a valid Evidence"),
        ("spec.schema_version", 99, "schema version 99; this program reads"),
        ("outcome.kind", "melted", "outcome 'melted', which is none of"),
    ],
)
def test_a_record_of_the_impossible_is_a_bad_line(tmp_path: Path, place: str, value: Any, problem: str) -> None:
    """It is named and left out; what it would have been averaged with stays as it is."""
    analysis, text = finished(with_altered(tmp_path / "s", place, value))
    (bad,) = analysis.journals.bad_lines.to_dict("records")
    assert (bad["line_number"], bad["kept"]) == (5, False) and problem in bad["problem"]
    assert analysis.tables.conditions["launches_count"].tolist() == [1, 2]
    assert "1 journal line could not be read as written" in text


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("report.timings.compile_seconds", "inf"),
        ("report.timings.first_step_seconds", "nan"),
        ("report.match.input_hash", 5),
        ("report.warnings", [{"a": 1}, None]),
        ("report.timings.window_start_seconds", [3.0, 2.0, 1.0]),
        ("report.counters", {"minor_faults": -5, "steps_measured": -1}),
        ("spec.settings", {"": 1, "a\nb": "</script>"}),
        ("started_utc", 5),
        ("spec.search", "largest_batch"),
    ],
)
def test_an_odd_field_costs_only_itself(tmp_path: Path, place: str, value: Any) -> None:
    analysis, _ = finished(with_altered(tmp_path / "s", place, value))
    assert analysis.journals.bad_lines.empty and len(analysis.journals.trials) == 4
    assert analysis.tables.conditions["step_seconds_mean"].iloc[0] == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("place", "value", "problem"),
    [
        ("design.factors", ["framework"], "design.factors is not an object of lists"),
        ("design.primary", 5, "design.primary is not a text or a list of texts"),
        ("design.blocks", "three", "design.blocks is not a number of blocks"),
        ("design.conditions", [{"settings": {}}], "design.conditions is not a list of conditions"),
        ("design", None, "design is not an object"),
        ("provenance", None, "provenance is not an object"),
        ("provenance.versions", "1.0", "provenance.versions is not an object"),
        ("started_utc", None, "started_utc is not a text"),
    ],
)
def test_a_session_of_another_shape_is_a_bad_line(tmp_path: Path, place: str, value: Any, problem: str) -> None:
    folder = factory.write(tmp_path / "s", *(factory.trial(one, 0, 0.01) for one in (JAX, TF)))
    with (folder / "journal" / "a.jsonl").open("a") as stream:
        stream.write(altered(factory.session([JAX, TF], 1), place, value))
    analysis, text = finished(folder)
    assert problem in analysis.journals.bad_lines["problem"].iloc[0]
    assert "No session line was readable" in text and len(analysis.tables.pairs) == 1


def test_half_a_character_is_replaced(tmp_path: Path) -> None:
    """A name in bytes that are no UTF-8 becomes half of a pair in Python, which JSON can write and no file can hold."""
    folder = with_altered(tmp_path / "s", "outcome.text", "MARK")
    path = folder / "journal" / "a.jsonl"
    *lines, last = path.read_text().splitlines()
    body = decode_line(last)
    body["outcome"] |= {"kind": "crash", "text": "broken \udc80 name"}
    whole = json.dumps(body, separators=(",", ":"))
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    path.write_text("\n".join([*lines, f'{whole[:-1]},"checksum":"{digest}"}}', ""]))
    analysis, text = finished(folder)
    assert analysis.journals.bad_lines.empty
    assert "broken \N{REPLACEMENT CHARACTER} name" in text


def test_wild_ratios_have_a_wild_interval(tmp_path: Path) -> None:
    """Ratios of 10¹⁵ and 10⁻¹⁵: the logarithms' mean is 0, their error ln 10¹⁵, t(.975, 1) = 12.7062."""
    folder = factory.study(tmp_path / "s", [JAX, TF], lambda n, b: 1e5 if (n + b) % 2 else 1e-10, blocks=2)
    analysis, text = finished(folder)
    pair = analysis.tables.pairs.iloc[0]
    high = math.exp(12.706204736174694 * math.log(1e15))
    assert (pair["time_ratio"], pair["time_ratio_high"]) == (pytest.approx(1.0), pytest.approx(high, rel=1e-9))
    assert pair["verdict"] == "UNDECIDED" and "95 % interval" in text


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    """A pipe would keep the analysis waiting for ever."""
    folder = factory.study(tmp_path / "s", [JAX], lambda _, __: 0.01)
    (folder / "journal" / "folder.jsonl").mkdir()
    os.mkfifo(folder / "journal" / "pipe.jsonl")
    (folder / "journal" / "link.jsonl").symlink_to("nowhere")
    analysis, text = finished(folder)
    assert analysis.journals.bad_lines["file"].tolist() == [f"s/journal/{n}.jsonl" for n in ("folder", "link", "pipe")]
    assert len(analysis.tables.trials) == 3 and "no file: nothing was read" in text
