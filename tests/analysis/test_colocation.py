"""Slow-downs worked out by hand, what is said where there is none, and that no tenant passes for a solo trial."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from scipy import special

from analysis import method
from analysis.factors import ALONE
from analysis.figures import gallery
from analysis.load import read_journals
from analysis.pipeline import analyse
from analysis.tables import Tables, build_tables
from runners.records import TrialRecord
from runners.specs import Tenancy
from tests.analysis import records_factory as factory

MIB = 2**20
NAME = "jax+tf"


def tenant(number: int, framework: str, name: str = NAME, **settings: Any) -> dict[str, Any]:
    company = {"colocation": name, "colocation.tenant": number, "colocation.stagger_seconds": None}
    return {**factory.condition(framework, **settings), **company}


def shared(
    settings: dict[str, Any], block: int, seconds: float | None, overlapped: int = 3, tenants: int = 2, **rest: Any
) -> TrialRecord:
    """A tenant's record; None: it ran out of memory. Three windows, of which `overlapped` had company."""
    outcome = "oom" if seconds is None else "ok"
    record = factory.trial(settings, block, seconds, outcome=outcome, **{"host_mib": 100, **rest})
    number = settings["colocation.tenant"]
    group = f"{settings['colocation']}-{settings['workload.batch_size']}-{block}"
    place = Tenancy(str(settings["colocation"]), number, tenants, group)
    counters = dict(record.report.counters)
    if seconds is not None:
        counters["overlapped_windows"] = overlapped
    record = factory.changed(record, counters=counters)
    return dataclasses.replace(record, spec=dataclasses.replace(record.spec, tenancy=place))


JAX, TF = tenant(1, "jax"), tenant(2, "tf")
#: What a study of today writes for a solo condition; the factory's own is that of a study before co-location.
ALONE_JAX, ALONE_TF = {**factory.condition("jax"), **ALONE}, factory.condition("tf")


def tables_of(folder: Path, conditions: list[dict[str, Any]], *lines: TrialRecord, **design: Any) -> Tables:
    factory.write(folder / "s", factory.session(conditions, 3, **design), *lines)
    return build_tables(read_journals([folder / "s"]), 0.02)


def study(*, with_solo: bool = True) -> list[TrialRecord]:
    """JAX slows down 2, 4 and 8 times; TF 1.5, 1.5 and — in block 2 it ran out of memory."""
    lines: list[TrialRecord] = []
    for block, (jax, tf) in enumerate([(0.02, 0.03), (0.04, 0.03), (0.08, None)]):
        lines += [shared(JAX, block, jax, overlapped=2), shared(TF, block, tf, host_mib=50)]
        if with_solo:
            lines += [factory.trial(ALONE_JAX, block, 0.01), factory.trial(ALONE_TF, block, 0.02)]
    return lines


@pytest.fixture
def whole(tmp_path: Path) -> Tables:
    return tables_of(tmp_path, [ALONE_JAX, ALONE_TF, JAX, TF], *study())


def test_a_slow_down_is_the_mean_log_ratio_over_whole_blocks(whole: Tables) -> None:
    jax, tf = whole.tenants.to_dict("records")
    # block 2 is left out: TF ended otherwise there, so that JAX had no company. log 2 and log 4 remain
    mean, half = math.log(8) / 2, special.stdtrit(1, 0.975) * math.log(2) / math.sqrt(2) / math.sqrt(2)
    assert (jax["blocks_count"], jax["whole_blocks_count"], jax["attempts_count"], jax["ok_count"]) == (2, 2, 3, 3)
    assert jax["time_ratio"] == pytest.approx(math.sqrt(8))
    assert jax["time_ratio_low"] == pytest.approx(math.exp(mean - half))
    assert jax["time_ratio_high"] == pytest.approx(math.exp(mean + half))
    assert jax["overlap_share_ratio"] == pytest.approx(2 / 3)
    assert (tf["ok_count"], tf["blocks_count"], tf["overlap_share_ratio"]) == (2, 2, 1.0)
    assert [tf[name] for name in ("time_ratio", "time_ratio_low", "time_ratio_high")] == pytest.approx([1.5] * 3)


def test_a_company_has_all_outcomes_and_sums_only_what_all_have(whole: Tables) -> None:
    first, second, third = whole.colocation.to_dict("records")
    assert first["outcomes"] == "1 (jax): ok; 2 (tf): ok"
    assert first["time_ratio_geometric_mean"] == pytest.approx(math.sqrt(2 * 1.5))
    assert first["system_throughput_ratio"] == pytest.approx(1 / 2 + 1 / 1.5)
    assert second["system_throughput_ratio"] == pytest.approx(1 / 4 + 1 / 1.5)
    assert first["overlap_share_ratio"] == pytest.approx(2 / 3)
    assert first["host_peak_above_baseline_total_bytes"] == 150 * MIB
    assert first["host_peak_total_bytes"] == (2 * 200 + 150) * MIB
    assert math.isnan(first["process_peak_total_bytes"])
    assert third["outcomes"] == "1 (jax): ok; 2 (tf): oom"
    assert (third["ok_count"], third["tenants_count"]) == (1, 2)
    assert math.isnan(third["host_peak_above_baseline_total_bytes"])
    assert math.isnan(third["system_throughput_ratio"])
    assert third["note"] == "no slow-down: not every tenant ended ok beside the others"


def test_tenants_are_no_side_of_a_pair_of_solo_trials(whole: Tables) -> None:
    (pair,) = whole.pairs.to_dict("records")
    assert (pair["level_a"], pair["level_b"], pair["blocks_count"]) == ("jax", "tf", 3)
    assert pair["time_ratio"] == pytest.approx(0.5)
    assert {pair["condition_a"], pair["condition_b"]} == {
        factory.condition_id(ALONE_JAX),
        factory.condition_id(ALONE_TF),
    }


def test_the_certificate_takes_tenants_for_the_work_that_they_do(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [JAX, TF], *study(with_solo=False))
    (line,) = tables.certificate.to_dict("records")
    # two blocks in which both ended ok
    assert (line["framework_a"], line["framework_b"], line["comparisons_count"]) == ("jax", "tf", 2)
    assert line["input_hash_equal"]
    assert len(tables.pairs) == 0


def test_with_colocation_as_primary_factor_each_tenant_is_set_against_itself_alone(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [ALONE_JAX, ALONE_TF, JAX, TF], *study(), primary="colocation")
    found = {
        (pair["level_a"], pair["level_b"], pair["cell"]): pair["time_ratio"] for pair in tables.pairs.to_dict("records")
    }
    assert found == {
        ("solo", "jax+tf · tenant 1", "jax"): pytest.approx(1 / 4),
        ("solo", "jax+tf · tenant 2", "tf"): pytest.approx(1 / 1.5),
    }


def test_tenants_under_two_modes_are_compared(tmp_path: Path) -> None:
    """All else equal, company and number too."""
    growth = [{**one, "allocation": "growth"} for one in (JAX, TF)]
    lines = [shared(one, block, seconds) for block in range(2) for one, seconds in [(JAX, 0.02), (TF, 0.03)]]
    others = [
        dataclasses.replace(record, spec=dataclasses.replace(record.spec, tenancy=dataclasses.replace(
            record.spec.tenancy, group_id=f"growth-{record.spec.block}")))
        for block in range(2) for record in [shared(growth[0], block, 0.04), shared(growth[1], block, 0.03)]
        if record.spec.tenancy is not None
    ]  # fmt: skip
    tables = tables_of(tmp_path, [JAX, TF, *growth], *lines, *others, primary="allocation")
    ratios = {pair["cell"]: pair["time_ratio"] for pair in tables.pairs.to_dict("records")}
    assert ratios == {"jax · tenant 1": pytest.approx(0.5), "tf · tenant 2": pytest.approx(1.0)}


def test_without_a_solo_trial_there_is_no_slow_down_and_that_is_said(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, [JAX, TF], *study(with_solo=False))
    assert tables.tenants["time_ratio"].isna().all()
    assert set(tables.tenants["note"]) == {"no slow-down: this condition was not run alone"}
    assert tables.tenants["sentence"][0] == ("jax+tf, tenant 1 (jax): no slow-down: this condition was not run alone")
    (module,) = [one for one in gallery.discover() if one.__name__.endswith("sharing")]
    assert gallery.missing_data(module, tables) == "no row of tenants has time_ratio"


def test_a_block_whose_tenants_ran_in_two_sessions_was_no_company(tmp_path: Path) -> None:
    lines = [
        shared(JAX, 0, 0.02), shared(TF, 0, 0.03, session="session-2"),
        factory.trial(ALONE_JAX, 0, 0.01), factory.trial(ALONE_TF, 0, 0.02),
    ]  # fmt: skip
    tables = tables_of(tmp_path, [ALONE_JAX, ALONE_TF, JAX, TF], *lines)
    # the run of either session is incomplete; the later one is shown
    assert tables.colocation["outcomes"].to_list() == ["2 (tf): ok"]
    assert tables.tenants["whole_blocks_count"].to_list() == [0]
    assert tables.tenants["note"].to_list() == ["no slow-down: in no block did all tenants end ok"]


def test_a_repeated_company_counts_as_a_whole(tmp_path: Path) -> None:
    later = {"session": "session-2", "started": "2026-01-02T00:00:00+00:00"}
    lines = [
        # JAX ended ok here, but without its company
        shared(JAX, 0, 0.09), shared(TF, 0, None),
        shared(JAX, 0, 0.02, **later), shared(TF, 0, 0.03, **later),
        factory.trial(ALONE_JAX, 0, 0.01), factory.trial(ALONE_TF, 0, 0.02),
    ]  # fmt: skip
    tables = tables_of(tmp_path, [ALONE_JAX, ALONE_TF, JAX, TF], *lines)
    assert tables.tenants["time_ratio"].to_list() == pytest.approx([2.0, 1.5])
    assert len(tables.superseded) == 2
    assert tables.tenants["sentence"][0] == (
        "jax+tf, tenant 1 (jax) takes 2.00 × its time alone in the one whole block (n = 1: no interval), "
        "100% of its windows in whole company"
    )


def test_a_later_run_that_failed_does_not_undo_a_whole_one(tmp_path: Path) -> None:
    later = {"session": "session-2", "started": "2026-01-02T00:00:00+00:00"}
    lines = [shared(JAX, 0, 0.02), shared(TF, 0, 0.03), shared(JAX, 0, 0.09, **later), shared(TF, 0, None, **later)]
    tables = tables_of(tmp_path, [JAX, TF], *lines)
    assert tables.colocation["outcomes"].to_list() == ["1 (jax): ok; 2 (tf): ok"]
    assert sorted(tables.trials["step_seconds"]) == pytest.approx([0.02, 0.03])


def test_two_companies_that_differ_otherwise_stay_apart(tmp_path: Path) -> None:
    sizes = [256, 512]
    conditions = [tenant(n, f, workload__batch_size=size) for size in sizes for n, f in ((1, "jax"), (2, "tf"))]
    lines = [shared(one, 0, 0.02) for one in conditions]
    tables = tables_of(tmp_path, conditions, *lines)
    assert tables.colocation["cell"].to_list() == ["batch_size 256", "batch_size 512"]
    assert tables.tenants["cell"].to_list() == ["batch_size 256"] * 2 + ["batch_size 512"] * 2


def test_the_method_says_how_sharing_was_measured(tmp_path: Path) -> None:
    factory.write(tmp_path / "s", factory.session([ALONE_JAX, ALONE_TF, JAX, TF], 3), *study())
    journals = read_journals([tmp_path / "s"])
    text = dict(method.paragraphs(journals, build_tables(journals, 0.02)))["Sharing"]
    assert "Companies of jax+tf shared the device" in text
    assert "In 2 of 3 runs every tenant ended ok" in text
    assert "66.7 to 100 % of a tenant's windows" in text


def test_a_study_without_company_has_neither_table_nor_section(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [ALONE_JAX, ALONE_TF], lambda *_: 0.01)
    finished = analyse([folder], tmp_path / "out")
    assert not (tmp_path / "out" / "tables" / "colocation.csv").exists()
    assert 'id="sharing"' not in finished.report.read_text()
    assert "cost to share" not in finished.report.read_text()
    assert set(finished.tables.trials["colocation"]) == {"solo"}


def test_the_report_has_the_section_with_its_figure(tmp_path: Path) -> None:
    factory.write(tmp_path / "s", factory.session([ALONE_JAX, ALONE_TF, JAX, TF], 3), *study())
    page = analyse([tmp_path / "s"], tmp_path / "out").report.read_text()
    section = page[page.index('id="sharing"') :]
    assert "jax+tf, tenant 1 (jax) takes 2.83 × its time alone" in section
    assert 'id="figure-sharing"' in section
    assert "1 (jax): ok; 2 (tf): oom" in section
    for name in ("colocation", "tenants"):
        assert (tmp_path / "out" / "tables" / f"{name}.csv").exists()
