"""Two studies side by side: what is the same condition, what counts as a regression, which findings hold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from analysis.__main__ import main
from analysis.compare import Comparison, compare
from analysis.findings import held
from runners.records import Plan
from tests.analysis import records_factory as factory

JAX, TF = factory.condition("jax"), factory.condition("tf")
OTHER = factory.condition("jax", allocation="odd |\n\n name")
NOISE = (0.99, 1.0, 1.01, 0.995, 1.005)


def study(folder: Path, factors: tuple[float, float], *, host_mib: float = 300.0, **session: Any) -> Path:
    """jax at 10 ms × the first factor, tf at 20 ms × the second, five blocks."""
    trials = [
        factory.trial(one, b, step * f * NOISE[(b + n) % 5], host_mib=host_mib * NOISE[b], order=n)
        for b in range(5)
        for n, (one, step, f) in enumerate(zip((JAX, TF), (0.01, 0.02), factors, strict=True))
    ]
    return factory.write(folder, factory.session([JAX, TF], 5, name=folder.name, **session), *trials)


def rows(found: Comparison) -> dict[tuple[str, str], dict[str, Any]]:
    table = found.differences
    return {(row.condition, row.metric): row._asdict() for row in table.itertuples(index=False)}


def test_the_same_again_is_equivalent(tmp_path: Path) -> None:
    found = compare(study(tmp_path / "a", (1, 1)), study(tmp_path / "b", (1, 1)), 0.02)
    assert set(rows(found)) == {
        (name, metric) for name in ("jax", "tf") for metric in ("step_seconds", "host_peak_above_baseline_bytes")
    }
    assert set(found.differences["verdict"]) == {"EQUIVALENT"}
    assert found.differences["ratio"].tolist() == pytest.approx([1.0] * 4)
    assert (found.regressions, found.lost) == (0, 0)
    assert found.findings["held"].tolist() == ["HELD"]
    assert found.changed == []


def test_slower_beyond_the_margin_is_a_regression(tmp_path: Path) -> None:
    first, second = study(tmp_path / "a", (1, 1)), study(tmp_path / "b", (1.1, 1.0))
    found = rows(compare(first, second, 0.02))
    slow = found["jax", "step_seconds"]
    assert (slow["verdict"], slow["regression"], slow["ratio"]) == ("SLOWER", True, pytest.approx(1.1))
    assert not found["tf", "step_seconds"]["regression"]
    assert main(["compare", str(first), str(second), "--quiet"]) == 0
    assert main(["compare", str(first), str(second), "--quiet", "--fail-on-regression"]) == 1
    assert main(["compare", str(second), str(first), "--quiet", "--fail-on-regression"]) == 0
    assert main(["compare", str(first), str(second), "--quiet", "--fail-on-regression", "--margin", "0.2"]) == 0


def test_slower_within_the_margin_is_none(tmp_path: Path) -> None:
    found = rows(compare(study(tmp_path / "a", (1, 1)), study(tmp_path / "b", (1.03, 1)), 0.05))
    assert not found["jax", "step_seconds"]["regression"]


def test_bigger_is_a_regression_too(tmp_path: Path) -> None:
    found = compare(study(tmp_path / "a", (1, 1)), study(tmp_path / "b", (1, 1), host_mib=330), 0.02)
    row = rows(found)["tf", "host_peak_above_baseline_bytes"]
    assert (row["verdict"], row["regression"], row["ratio"]) == ("BIGGER", True, pytest.approx(1.1, rel=1e-6))
    assert found.regressions == 2


def test_one_launch_proves_nothing(tmp_path: Path) -> None:
    folders = [
        factory.write(tmp_path / name, factory.session([JAX], 1, name=name), factory.trial(JAX, 0, step))
        for name, step in (("a", 0.01), ("b", 0.02))
    ]
    row = rows(compare(*folders, 0.02))["jax", "step_seconds"]
    assert (row["verdict"], row["regression"]) == ("n = 1: no interval", False)


def test_what_no_longer_ends_ok_is_a_regression(tmp_path: Path) -> None:
    first = study(tmp_path / "a", (1, 1))
    trials = [factory.trial(JAX, b, 0.01) for b in range(3)] + [factory.trial(TF, b, outcome="oom") for b in range(3)]
    second = factory.write(tmp_path / "b", factory.session([JAX, TF], 3, name="b"), *trials)
    found = compare(first, second, 0.02)
    assert found.not_comparable.to_numpy().tolist() == [["tf", "b: 3 oom", True]]
    assert main(["compare", str(first), str(second), "--quiet", "--fail-on-regression"]) == 1
    assert main(["compare", str(second), str(first), "--quiet", "--fail-on-regression"]) == 0


def test_a_condition_that_one_lacks_is_named_with_the_nearest(tmp_path: Path) -> None:
    wide = factory.condition("jax", workload__batch_size=512)
    first = factory.study(tmp_path / "a", [JAX], lambda *_: 0.01, name="a")
    second = factory.study(tmp_path / "b", [wide], lambda *_: 0.01, name="b")
    reasons = compare(first, second, 0.02).not_comparable["reason"].tolist()
    assert reasons == [
        "not in b (the nearest there differs in workload.batch_size 256, there 512)",
        "not in a (the nearest there differs in workload.batch_size 512, there 256)",
    ]


def test_other_work_is_not_compared(tmp_path: Path) -> None:
    first = factory.write(tmp_path / "a", factory.session([JAX], 1, name="a"), factory.trial(JAX, 0, 0.01))
    other = factory.trial(JAX, 0, 0.01, parameters=2000)
    second = factory.write(tmp_path / "b", factory.session([JAX], 1, name="b"), other)
    found = compare(first, second, 0.02)
    assert found.differences.empty
    assert found.not_comparable["reason"].tolist() == ["not the same work: parameters 1000 → 2000"]


def test_protocol_and_versions_may_differ_and_are_named(tmp_path: Path) -> None:
    short, long = (
        factory.condition("jax", protocol=name, protocol__windows=n) for name, n in (("quick", 15), ("paper", 30))
    )
    first = factory.study(tmp_path / "a", [short], lambda _, b: 0.01 * NOISE[b], name="a")
    session = factory.session([long], 3, name="b", provenance="machine-two")
    session = replace(session, provenance={**session.provenance, "kernel": "6.2"})
    trials = [factory.trial(long, b, 0.01 * NOISE[b], provenance="machine-two") for b in range(3)]
    found = compare(first, factory.write(tmp_path / "b", session, *trials), 0.02)
    assert ("jax", "step_seconds") in rows(found)
    assert found.changed == ["kernel: 6.1 → 6.2", "protocol: quick → paper", "protocol.windows: 15 → 30"]


def test_planned_bytes_are_compared_exactly(tmp_path: Path) -> None:
    chip = factory.condition("jax", device="tpu", chip="v5e", evidence="compiled")
    folders = []
    for name, peak in (("a", 1000), ("b", 1030)):
        planned = factory.trial(chip, 0, plan=Plan(peak_bytes=peak, fits=True), host_mib=None)
        folders.append(factory.write(tmp_path / name, factory.session([chip], 1, name=name), planned))
    found = rows(compare(*folders, 0.02))
    assert list(found) == [("jax", "planned_peak_bytes")]
    row = found["jax", "planned_peak_bytes"]
    assert (row["verdict"], row["regression"], row["ratio"]) == ("BIGGER", True, pytest.approx(1.03))
    assert not rows(compare(*folders, 0.05))["jax", "planned_peak_bytes"]["regression"]


def test_a_reversed_finding_is_lost(tmp_path: Path) -> None:
    first, second = study(tmp_path / "a", (1, 1)), study(tmp_path / "b", (4, 1))
    found = compare(first, second, 0.02)
    assert found.findings["held"].tolist() == ["REVERSED"]
    row = found.findings.iloc[0]
    assert (row["first_ratio"], row["second_ratio"]) == pytest.approx((0.5, 2.0))
    assert row["ratio_of_ratios"] == pytest.approx(4.0)
    assert row["ratio_of_ratios_low"] < 4 < row["ratio_of_ratios_high"]
    assert main(["compare", str(first), str(second), "--quiet", "--fail-on-lost-finding"]) == 1


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("FASTER", "FASTER", "HELD"),
        ("FASTER", "SLOWER", "REVERSED"),
        ("SLOWER", "EQUIVALENT", "NOT HELD"),
        ("FASTER", "DIFFERENT BUT SMALL", "NOT HELD"),
        ("FASTER", "UNDECIDED", "UNDECIDED"),
        ("FASTER", "n = 1: no interval", "UNDECIDED"),
        ("EQUIVALENT", "DIFFERENT BUT SMALL", "HELD"),
        ("EQUIVALENT", "FASTER", "NOT HELD"),
        ("UNDECIDED", "FASTER", "NO FINDING"),
        ("FASTER", "NOT COMPARED", "NOT COMPARED"),
        ("NO COMMON BLOCK", "NOT COMPARED", "NO FINDING"),
    ],
)
def test_what_became_of_a_finding(first: str, second: str, expected: str) -> None:
    assert held(first, second) == expected


def test_files_and_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = study(tmp_path / "a", (1, 1)), study(tmp_path / "b", (1.1, 1))
    assert main(["compare", str(first), str(second)]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "REGRESSION: jax: step × 1.10" in printed and "n = 5 and 5: SLOWER" in printed
    written = tmp_path / "compare-a+b"
    assert {path.name for path in written.iterdir()} == {
        "compare.md",
        "differences.csv",
        "findings.csv",
        "not_comparable.csv",
    }
    assert "REGRESSION: jax: step × 1.10" in (written / "compare.md").read_text()


@pytest.mark.parametrize("other", ["absent", "."])
def test_a_wrong_folder_is_a_wrong_request(tmp_path: Path, other: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", str(study(tmp_path / "a", (1, 1))), str(tmp_path / other)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_empty_studies_do_not_crash_it(tmp_path: Path) -> None:
    folders = [factory.write(tmp_path / name, factory.session([JAX], 1, name=name)) for name in ("a", "b")]
    found = compare(*folders, 0.02)
    assert found.not_comparable["reason"].tolist() == ["a: not run; b: not run"]
    assert (found.regressions, found.lost) == (0, 0)


def test_a_regression_that_nothing_could_show_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A check that compared nothing, as after a setting was renamed, must not pass."""
    folders = [str(study(tmp_path / "a", (1, 1))), str(factory.study(tmp_path / "b", [OTHER], lambda *_: 0.01))]
    assert main(["compare", *folders, "--quiet"]) == 0
    assert main(["compare", *folders, "--quiet", "--fail-on-regression"]) == 2
    assert capsys.readouterr().err == "analysis: nothing of the two studies could be compared: see Not comparable\n"


def test_a_name_of_several_lines_stays_one_line_of_the_list(tmp_path: Path) -> None:
    folders = [str(study(tmp_path / "a", (1, 1))), str(factory.study(tmp_path / "b", [OTHER], lambda *_: 0.01))]
    assert main(["compare", *folders, "--quiet", "--output", str(tmp_path / "out")]) == 0
    lines = (tmp_path / "out" / "compare.md").read_text().splitlines()
    assert all(line == "" or line[0] in "-#" for line in lines)
    assert any("allocation odd | name, there default" in line for line in lines)


def test_a_place_that_cannot_be_written_is_a_wrong_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    first = str(study(tmp_path / "a", (1, 1)))
    assert main(["compare", first, first, "--output", str(tmp_path / "file" / "out")]) == 2
    assert "make room there or give --output DIR" in capsys.readouterr().err


def test_older_versions_are_left_out_and_counted(tmp_path: Path) -> None:
    first = study(tmp_path / "a", (1, 1))
    old = [factory.trial(JAX, b, 0.05, provenance="old", session="s0") for b in (7, 8)]
    session = factory.session(
        [JAX, TF], 5, name="b", provenance="old", session="s0", started="2025-01-01T00:00:00+00:00"
    )
    second = study(tmp_path / "b", (1, 1))
    factory.write(second, session, *old, file="older.jsonl")
    found = compare(first, second, 0.02)
    assert found.second.left_out == 2
    assert rows(found)["jax", "step_seconds"]["second_count"] == 5
