"""Compiled evidence in the analysis: differences, certificate, capacity, and figures apart from measured ones."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from matplotlib.text import Text

from analysis.figures import gallery
from analysis.load import read_journals
from analysis.pipeline import analyse
from analysis.tables import Tables, build_tables
from runners.records import Outcome, OutcomeKind, Phase, Plan, TrialRecord
from tests.analysis import records_factory as factory

MIB = 2**20
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in gallery.discover()
    if getattr(module, "EVIDENCE", "measured") == "compiled"
}


def plan(temp: int, **changes: Any) -> Plan:
    """100 MiB of arguments that all become results, and `temp` MiB of temporaries."""
    values: dict[str, Any] = {
        "argument_bytes": 100 * MIB, "output_bytes": 100 * MIB, "alias_bytes": 100 * MIB, "temp_bytes": temp * MIB,
        "code_bytes": 0, "peak_bytes": (100 + temp) * MIB, "usable_bytes": 400 * MIB, "fits": True,
        "matrix_flops": 1_000_000, "flops": 1.1e6, "live_bytes": [MIB, 3 * MIB, 2 * MIB],
    }  # fmt: skip
    return Plan(**{**values, **changes})


def compiled(framework: str, found: Plan | None, batch: int = 8, **changes: Any) -> TrialRecord:
    """One compiled trial; without a plan the compiler refused it, asking for 500 of 400 MiB."""
    settings = factory.condition(
        framework, device="tpu", chip="v5e", evidence="compiled", workload__batch_size=batch, **changes
    )
    record = factory.trial(settings, 0, None, plan=found)
    counts = replace(record.report.counts, own_matrix_flops=1_000_000)
    record.report = replace(record.report, counts=counts)
    if found is None:
        record.outcome = Outcome(
            OutcomeKind.OOM, Phase.COMPILE, "compile", bytes_asked=500 * MIB, bytes_available=400 * MIB
        )
    return record


def tables_of(folder: Path, *trials: TrialRecord) -> Tables:
    settings = [{key: value for key, value in one.spec.settings.items() if key != "replicate"} for one in trials]
    return build_tables(read_journals([factory.write(folder / "s", factory.session(settings, 1), *trials)]), 0.02)


def test_the_difference_is_that_of_the_plans(tmp_path: Path) -> None:
    row = tables_of(tmp_path, compiled("jax", plan(25)), compiled("tf", plan(50))).plan_differences.iloc[0]
    assert (row["level_a"], row["level_b"]) == ("jax", "tf")
    assert row["planned_peak_bytes"] == pytest.approx(125 / 150 - 1)
    assert row["planned_temp_bytes"] == pytest.approx(-0.5)
    assert row["match"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"argument_bytes": 100 * MIB + 1}, "planned_argument_bytes"),
        ({"output_bytes": 1}, "planned_output_bytes"),
        ({"matrix_flops": 1_010_001}, "more than 1 %: tf's lowered module 1,010,001"),
    ],
)
def test_plans_of_other_work_do_not_match(tmp_path: Path, changes: dict[str, Any], reason: str) -> None:
    tables = tables_of(tmp_path, compiled("jax", plan(5)), compiled("tf", plan(5, **changes)))
    row = tables.plan_differences.iloc[0]
    assert not row["match"] and reason in row["match_reason"]
    assert tables.mismatches == 1


@pytest.mark.parametrize(("own", "theirs", "match"), [(0, 7, True), (None, 7, False), (None, 0, True)])
def test_products_are_judged_unless_the_workload_has_none(
    tmp_path: Path, own: int | None, theirs: int, match: bool
) -> None:
    """A workload that counts none says nothing of them: there the two modules are held against each other."""
    trials = [compiled("jax", plan(5, matrix_flops=0)), compiled("tf", plan(5, matrix_flops=theirs))]
    for one in trials:
        one.report.counts.own_matrix_flops = own
    tables = tables_of(tmp_path, *trials)
    assert tables.plan_differences["match"].tolist() == [match] and tables.mismatches == (not match)


def test_a_count_within_one_percent_matches_and_an_unknown_one_is_not_checked(tmp_path: Path) -> None:
    near = tables_of(tmp_path / "a", compiled("jax", plan(5)), compiled("tf", plan(5, matrix_flops=1_009_999)))
    assert near.plan_differences["match"].tolist() == [True]
    unknown = tables_of(tmp_path / "b", compiled("jax", plan(5)), compiled("tf", plan(5, matrix_flops=None)))
    assert unknown.plan_differences["match"].isna().all()
    assert "FLOPs of products in tf's lowered module" in unknown.plan_differences["match_reason"].iloc[0]


def test_capacity_is_the_largest_batch_that_fits(tmp_path: Path) -> None:
    probes = [compiled("jax", plan(batch), batch) for batch in (8, 16, 23)]
    probes += [compiled("jax", None, batch) for batch in (24, 32)]
    table = tables_of(tmp_path, *probes).capacity
    assert len(table) == 1
    row = table.iloc[0]
    assert (row["largest_batch_size"], row["smallest_refused_batch_size"], row["probes_count"]) == (23, 24, 5)
    assert row["planned_peak_bytes"] == 123 * MIB


def test_a_gpu_plan_that_was_made_but_does_not_fit_counts_as_refused(tmp_path: Path) -> None:
    table = tables_of(tmp_path, compiled("jax", plan(5), 8), compiled("jax", plan(350, fits=False), 16)).capacity
    assert table[["largest_batch_size", "smallest_refused_batch_size"]].to_numpy().tolist() == [[8, 16]]


def test_every_compiled_figure_says_that_nothing_was_measured(tmp_path: Path) -> None:
    trials = [compiled(name, plan(n), batch) for name in ("jax", "tf") for n, batch in enumerate((8, 16))]
    tables = tables_of(tmp_path, *trials, compiled("tf", None, 32))
    assert set(MODULES) == {"planned_memory", "fit_margin", "live_bytes", "plan_differences", "capacity"}
    for module in MODULES.values():
        assert gallery.missing_data(module, tables) == ""
        figure = gallery.draw(module, tables)
        titles = [text.get_text().replace("\n", " ") for text in figure.findobj(Text)]
        assert module.QUESTION in titles and "not measured" in module.QUESTION
    margin = gallery.draw(MODULES["fit_margin"], tables)
    assert "✕ lacks 25.0 %" in [text.get_text() for text in margin.findobj(Text)]


@pytest.mark.usefixtures("svg_only")
def test_the_report_keeps_evidence_apart(tmp_path: Path) -> None:
    trials = [compiled("jax", plan(25)), compiled("tf", plan(50)), factory.trial(factory.condition("jax"), 0, 0.01)]
    settings = [{key: value for key, value in one.spec.settings.items() if key != "replicate"} for one in trials]
    folder = factory.write(tmp_path / "s", factory.session(settings, 1), *trials)
    page = analyse([folder], folder).report.read_text()
    before, _, after = page.partition('<h2 id="compiled">')
    assert 'id="figure-planned_memory"' in after and 'id="figure-planned_memory"' not in before
    assert 'id="figure-step_time"' in before
    assert "planned, not measured: jax's peak is -16.7% against tf's, its temporaries -50.0%" in after.replace(
        "&#39;", "'"
    )
    assert "over-estimate" in after


@pytest.mark.usefixtures("svg_only")
def test_without_compiled_trials_there_is_no_such_section(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [factory.condition("jax")], lambda *_: 0.01)
    page = analyse([folder], folder).report.read_text()
    assert 'id="compiled"' not in page and "planned_memory" not in page
    assert not (folder / "figures" / "planned_memory.svg").exists()
