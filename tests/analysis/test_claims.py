"""Claims: the verdicts that invented trials must come to, worked out by hand, and the command that tells them."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from analysis import __main__ as analysis
from analysis.claims import CLAIMS, Evidence, answers
from analysis.claims.base import Answer, Claim, Finding, Kind, Verdict
from analysis.claims.table import COLUMNS
from analysis.load import read_journals
from runners.records import Quantity, TrialRecord
from tests.analysis import records_factory as factory

MIB = 2**20
GPU = {"device": "gpu", "colocation": "solo", "tenant": 1}


def answer_of(name: str, *records: TrialRecord, folder: Path) -> Answer:
    settings = [{k: v for k, v in one.spec.settings.items() if k != "replicate"} for one in records]
    conditions = [one for number, one in enumerate(settings) if one not in settings[:number]]
    factory.write(folder, factory.session(conditions), *records)
    return next(one for one in answers(Evidence(read_journals([folder]), 0.02)) if one.claim.name == name)


def launches(settings: Mapping[str, Any], seconds: float, blocks: int = 5, **more: Any) -> list[TrialRecord]:
    noise = (0.998, 1.0, 1.002, 1.001, 0.999)
    return [factory.trial(settings, block, seconds * noise[block], **more) for block in range(blocks)]


def on_demand(framework: str, workload: str, platform: float, pool: float) -> list[TrialRecord]:
    return [
        record
        for mode, seconds in (("platform", platform), ("tcmalloc", pool))
        for record in launches(
            factory.condition(framework, workload=workload, allocation=mode, workload__donate=False), seconds
        )
    ]


def one_block(workload: str, platform: float, pool: float) -> list[TrialRecord]:
    """Too little for an interval."""
    return [
        factory.trial(factory.condition(workload=workload, allocation=mode, workload__donate=False), 0, seconds)
        for mode, seconds in (("platform", platform), ("tcmalloc", pool))
    ]


@pytest.mark.parametrize(
    ("elementwise", "mlp", "verdict"),
    [
        (0.016, 0.012, Verdict.SUPPORTED),
        (0.008, 0.008, Verdict.REFUTED),
        (0.006, 0.008, Verdict.REFUTED),
        (0.016, 0.008, Verdict.DEPENDS),
        (0.016, None, Verdict.DEPENDS),
    ],
)
def test_on_demand_cost_by_cell(tmp_path: Path, elementwise: float, mlp: float | None, verdict: Verdict) -> None:
    """Against 8 ms under a pool: 16 and 12 ms are slower, 8 and 6 ms are not; one block alone is undecided."""
    records = on_demand("jax", "elementwise", elementwise, 0.008)
    records += on_demand("jax", "mlp", mlp, 0.008) if mlp else one_block("mlp", 0.008, 0.008)
    found = answer_of("P6", *records, folder=tmp_path / "s")
    assert found.verdict is verdict
    rest = "not in jax mlp" if mlp else "undecided in jax mlp"
    expected = f"the step: slower in jax elementwise; {rest}" if verdict is Verdict.DEPENDS else ""
    assert found.depends_on == expected
    assert "5 page faults a step against 5" in found.findings[0].text


def test_one_block_gives_no_verdict_but_its_numbers(tmp_path: Path) -> None:
    found = answer_of("P6", *one_block("mlp", 0.02, 0.01), folder=tmp_path / "s")
    assert found.verdict is Verdict.NOT_TESTABLE
    assert "undecided" in found.findings[0].text
    assert "2.00 (n = 1: no interval) of the time under tcmalloc" in found.findings[0].text


def test_donated_state_is_no_evidence_of_on_demand_cost(tmp_path: Path) -> None:
    records = [
        record
        for mode, seconds in (("platform", 0.02), ("tcmalloc", 0.01))
        for record in launches(factory.condition(allocation=mode, workload__donate=True), seconds)
    ]
    assert answer_of("P6", *records, folder=tmp_path / "s").findings == ()


@pytest.mark.parametrize(("traces", "verdict"), [(20, Verdict.SUPPORTED), (2, Verdict.REFUTED)])
def test_static_shapes_by_the_count_of_traces(tmp_path: Path, traces: int, verdict: Verdict) -> None:
    settings = factory.condition(workload="dynamic_shapes", workload__shape__shapes=20, workload__tracing="each_shape")
    record = factory.trial(settings)
    record = factory.changed(record, counts=dataclasses.replace(record.report.counts, traces=traces))
    found = answer_of("T3", record, folder=tmp_path / "s")
    assert found.verdict is verdict
    assert f"jax {traces} of 20" in found.findings[0].text


def tenants(mode: str, outcomes: Mapping[int, tuple[str, str]], colocation: str = "tf+tf") -> list[TrialRecord]:
    """Two tenants a block, ended as told."""
    return [
        factory.trial(
            factory.condition("tf", device="gpu", allocation=mode, colocation=colocation, tenant=tenant),
            block,
            0.01,
            outcome=ended[tenant - 1],
        )
        for block, ended in outcomes.items()
        for tenant in (1, 2)
    ]


OK, OOM = ("ok", "ok"), ("ok", "oom")


@pytest.mark.parametrize(
    ("default", "growth", "verdict"),
    [(OOM, OK, Verdict.SUPPORTED), (OK, OK, Verdict.DEPENDS), (OOM, OOM, Verdict.REFUTED)],
)
def test_growth_avoids_oom_by_the_outcomes_of_every_tenant(
    tmp_path: Path, default: tuple[str, str], growth: tuple[str, str], verdict: Verdict
) -> None:
    records = tenants("default", {0: default, 1: OK}) + tenants("growth", {0: growth, 1: OK})
    found = answer_of("T5", *records, folder=tmp_path / "s")
    assert found.verdict is verdict
    assert [one.kind for one in found.strongest] == [Kind.MEASURED]


def test_a_tenant_that_was_never_launched_is_no_evidence(tmp_path: Path) -> None:
    records = tenants("default", {0: ("unavailable", "unavailable")})
    assert [one.kind for one in answer_of("T4", *records, folder=tmp_path / "s").findings] == [Kind.MODELLED]


@pytest.mark.parametrize(("pool_mib", "verdict"), [(61_440, Verdict.SUPPORTED), (20_480, Verdict.REFUTED)])
def test_preallocation_by_the_share_of_the_device(tmp_path: Path, pool_mib: int, verdict: Verdict) -> None:
    """61,440 of 81,920 MiB are 75 %."""
    record = factory.trial(factory.condition(**GPU))
    memory = {
        **record.report.memory,
        "device_pool_peak": Quantity(pool_mib * MIB, "as documented"),
        "device_memory": Quantity(81_920 * MIB, "as documented"),
    }
    assert answer_of("P1", factory.changed(record, memory=memory), folder=tmp_path / "s").verdict is verdict


@pytest.mark.parametrize(("free_mib", "verdict"), [(15_000, Verdict.SUPPORTED), (100, Verdict.REFUTED)])
def test_no_preallocation_on_a_tpu_by_its_largest_free_block(tmp_path: Path, free_mib: int, verdict: Verdict) -> None:
    record = factory.trial(factory.condition(device="tpu"))
    memory = {
        **record.report.memory,
        "device_largest_free_block": Quantity(free_mib * MIB, "as documented"),
        "device_memory": Quantity(16_384 * MIB, "as documented"),
    }
    assert answer_of("T1", factory.changed(record, memory=memory), folder=tmp_path / "s").verdict is verdict


def test_fewer_plans_of_tensorflow_refute_its_better_integration(tmp_path: Path) -> None:
    def plans(outcome: str) -> list[TrialRecord]:
        chosen = {"device": "tpu", "chip": "v5e", "evidence": "compiled"}
        return [
            factory.trial(factory.condition(framework, **chosen), outcome="ok" if framework == "jax" else outcome)
            for framework in ("jax", "tf")
        ]

    assert answer_of("T6", *plans("ok"), folder=tmp_path / "equal").verdict is Verdict.REFUTED
    found = answer_of("T6", *plans("crash"), folder=tmp_path / "fewer")
    assert (found.verdict, found.findings[0].kind) == (Verdict.REFUTED, Kind.COMPILED)
    assert "1 plan the compiler made 1 from JAX and 0 from TensorFlow" in found.findings[0].text


def test_a_measurement_outranks_the_model_and_equals_that_differ_depend() -> None:
    claim: Claim = CLAIMS[0]
    measured, modelled = (
        Finding(kind, verdict, "here", "text")
        for kind, verdict in ((Kind.MEASURED, Verdict.REFUTED), (Kind.MODELLED, Verdict.SUPPORTED))
    )
    other = dataclasses.replace(measured, verdict=Verdict.SUPPORTED, where="there")
    assert Answer(claim, (modelled, measured)).verdict is Verdict.REFUTED
    assert Answer(claim, (measured, other)).verdict is Verdict.DEPENDS
    assert Answer(claim, (measured, other)).depends_on == "refuted on here; supported on there"
    assert Answer(claim, ()).verdict is Verdict.NOT_TESTABLE


@pytest.mark.usefixtures("svg_only")
def test_a_folder_of_themes_is_analysed_theme_by_theme_and_ends_in_the_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tmp_path / "both"
    for theme in ("one", "two"):
        conditions = [factory.condition(name) for name in ("jax", "tf")]
        factory.study(both / theme, conditions, lambda number, _: 0.01 + number * 0.001, name=theme)
    (both / "themes.yaml").write_text("themes: [one, two]\n", encoding="utf-8")
    assert analysis.main([str(both)]) == 0
    assert (both / "one" / "report.html").exists() and (both / "two" / "report.html").exists()
    with (both / "tables" / "claims.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["claim"] for row in rows] == [f"P{n}" for n in range(1, 7)] + [f"T{n}" for n in range(1, 7)]
    assert list(rows[0]) == list(COLUMNS)
    unsupported = [row for row in rows if row["verdict"] != "not testable here" and not row["evidence"]]
    assert unsupported == []
    assert 'href="one/report.html"' in (both / "claims.html").read_text(encoding="utf-8")
    assert "not testable here" in capsys.readouterr().out


def test_the_page_escapes_what_it_is_given(tmp_path: Path) -> None:
    theme = "<script>alert(1)</script>"
    place = tmp_path / "both" / theme.replace("/", "-")
    folder = factory.study(place, [factory.condition()], lambda *_: 0.01, blocks=1)
    (folder / "report.html").write_text("x", encoding="utf-8")
    (folder.parent / "themes.yaml").write_text("themes: []\n", encoding="utf-8")
    assert analysis.main(["claims", str(folder.parent), "--quiet"]) == 0
    assert "<script>" not in (folder.parent / "claims.html").read_text(encoding="utf-8")


def test_a_folder_without_studies_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert analysis.main(["claims", str(tmp_path)]) == 2
    assert "holds no journal" in capsys.readouterr().err


@pytest.mark.usefixtures("svg_only")
def test_themes_are_written_where_it_was_asked(tmp_path: Path) -> None:
    factory.study(tmp_path / "both" / "one", [factory.condition()], lambda *_: 0.01, blocks=1)
    (tmp_path / "both" / "themes.yaml").write_text("themes: [one]\n", encoding="utf-8")
    assert analysis.main([str(tmp_path / "both"), "--output", str(tmp_path / "there"), "--quiet"]) == 0
    assert (tmp_path / "there" / "one" / "report.html").exists() and (tmp_path / "there" / "claims.html").exists()
    assert sorted(one.name for one in (tmp_path / "both" / "one").iterdir()) == ["journal"]
