"""colocation=…: what may be asked, which conditions it makes, how they are grouped, and what is said of refusals."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from runners.records import OutcomeKind
from runners.specs import DeviceSpec, Tenancy
from study import colocation, stopping
from study.config import Condition
from study.design import Design, plan, trial
from study.errors import RequestError
from study.journal import read_past
from study.schema import AllocationEntry, EvidenceRequest
from tests.study.samples import condition, record
from tests.study.test_requests import study as command

LEVELS = ("jax", "tf", "tf_graph")


@pytest.mark.parametrize(
    ("name", "tenants", "canonical"),
    [
        ("jax+tf", ["jax", "tf"], "jax+tf"),
        ("tf+jax", ["tf", "jax"], "tf+jax"),
        ("2*jax", ["jax", "jax"], "jax+jax"),
        ("jax + 3*tf_graph", ["jax", "tf_graph", "tf_graph", "tf_graph"], "jax+3*tf_graph"),
        ("jax+2*jax+tf", ["jax", "jax", "jax", "tf"], "3*jax+tf"),
        ("8*tf", ["tf"] * 8, "8*tf"),
    ],
)
def test_a_name_means_its_tenants(name: str, tenants: list[str], canonical: str) -> None:
    assert colocation.tenants(name, LEVELS) == tenants
    assert colocation.canonical(tenants) == canonical
    assert colocation.tenants(canonical, LEVELS) == tenants


def test_solo_has_no_tenants() -> None:
    assert colocation.tenants("solo", LEVELS) == []


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("jax", "1 tenants"),
        ("1*jax", "1 tenants"),
        ("9*jax", "9 times jax"),
        ("5*jax+4*tf", "9 tenants"),
        ("0*jax+2*tf", "0 times jax"),
        ("jax+", "nothing between the + is no framework"),
        ("jax+torch", "torch between the + is no framework"),
        ("jax*2", r"jax\*2 between the + is no framework"),
        ("solo+jax", "solo between the + is no framework"),
        ("", "nothing between the + is no framework"),
        ("-2*jax+tf", r"-2\*jax between the + is no framework"),
    ],
)
def test_an_impossible_name_is_refused_with_what_it_takes(name: str, wrong: str) -> None:
    wanted = (
        r"; it takes solo, or 2 to 8 tenants joined by \+, such as jax\+tf or 4\*jax, each one of jax, tf, tf_graph"
    )
    with pytest.raises(RequestError, match=wrong.replace("the +", r"the \+") + r"\)" + wanted):
        colocation.tenants(name, LEVELS)


@pytest.mark.parametrize("seconds", [-1.0, math.inf, math.nan])
def test_a_stagger_is_a_time(seconds: float) -> None:
    with pytest.raises(RequestError, match=r"colocation_stagger_seconds=.* it takes 0 to 3600 seconds"):
        colocation.stagger(seconds)


def test_the_settings_may_be_typed(tmp_path: Path) -> None:
    for arguments, message in (
        (["colocation=jax+torch"], "colocation=jax+torch is not possible"),
        (["colocation=jax+tf", "colocation_stagger_seconds=-1"], "colocation_stagger_seconds=-1.0 is not possible"),
        (["colocation=2*jax", "study.search=batch_size", "device=tpu"], "leave colocation out"),
    ):
        finished = command(tmp_path, *arguments)
        assert (finished.returncode, list(tmp_path.iterdir())) == (2, []), finished.stdout
        assert message in finished.stderr


def rows(finished: Any) -> list[str]:
    return [line for line in finished.stdout.splitlines() if "colocation=" in line]


def test_a_sweep_names_every_tenant_once(tmp_path: Path) -> None:
    """2 frameworks × (solo, jax+tf with 2 staggers) are 2 solo conditions and 2 × 2 tenants."""
    sweep = ["-m", "framework=jax,tf", "colocation=solo,jax+tf", "colocation_stagger_seconds=0,1", "study.dry_run=true"]
    finished = command(tmp_path, *sweep)
    assert finished.returncode == 0, finished.stderr
    assert "6 conditions" in finished.stdout
    assert "pairs differ in: framework" in finished.stdout
    assert len(rows(finished)) == 6
    assert sum("solo" in line for line in rows(finished)) == 2


def test_one_co_location_without_m_is_one_block(tmp_path: Path) -> None:
    finished = command(tmp_path, "colocation=2*jax", "study.dry_run=true")
    assert finished.returncode == 0, finished.stderr
    assert "2 conditions, 1 blocks" in finished.stdout


def tenants(name: str, *frameworks: str, **changes: Any) -> list[Condition]:
    extra = changes.pop("extra", {})
    return [
        condition(
            framework,
            extra={**extra, "colocation": name, "colocation.tenant": number, "colocation.stagger_seconds": None},
            tenant=number,
            tenants=len(frameworks),
            **changes,
        )
        for number, framework in enumerate(frameworks, start=1)
    ]


def solo(framework: str, **changes: Any) -> Condition:
    nothing = {"colocation": "solo", "colocation.tenant": None, "colocation.stagger_seconds": None}
    return condition(framework, extra={**nothing, **changes.pop("extra", {})}, **changes)


def design(*conditions: Condition, **rest: Any) -> Design:
    return plan(conditions, **{"swept": ["colocation"], "primary": None, "seed": 5, **rest})


def test_the_id_of_a_solo_condition_is_that_of_a_study_without_co_location() -> None:
    assert solo("fake").condition_id == condition("fake").condition_id
    assert trial(solo("fake"), 0, 0, 0).trial_id == trial(condition("fake"), 0, 0, 0).trial_id
    assert trial(solo("fake"), 0, 0, 0).tenancy is None


def test_the_ids_of_a_study_before_co_location_are_found_again() -> None:
    records = read_past(Path(__file__).parents[2] / "outputs" / "reference").records.values()
    assert records
    for one in records:
        recorded = dict(one.spec.settings)
        again = solo("fake", replicate=recorded.pop("replicate"))
        again.settings.clear()
        again.settings.update(recorded)
        again.settings.update({"colocation": "solo", "colocation.tenant": None, "colocation.stagger_seconds": None})
        assert again.condition_id == one.spec.condition_id


def test_tenants_are_one_group_that_takes_no_turns() -> None:
    study = design(
        solo("fake"), solo("other"), *tenants("fake+other", "fake", "other"), *tenants("2*fake", "fake", "fake")
    )
    for block in range(2):
        groups = study.block(block)
        assert sorted(len(group) for group in groups) == [2, 2, 2]
        assert Counter(spec.condition_id for group in groups for spec in group) == Counter(
            one.condition_id for one in study.conditions
        )
        for group in groups:
            names = {spec.settings["colocation"] for spec in group}
            assert len(names) == 1
            assert {spec.protocol.interleave for spec in group} == {names == {"solo"}}
            assert len({spec.seed for spec in group}) == 1
    places = [spec.tenancy for group in study.block(0) for spec in group if spec.tenancy is not None]
    assert sorted((one.colocation, one.tenant, one.tenants) for one in places) == [
        ("2*fake", 1, 2), ("2*fake", 2, 2), ("fake+other", 1, 2), ("fake+other", 2, 2),
    ]  # fmt: skip
    again = [spec.tenancy for group in study.block(1) for spec in group if spec.tenancy is not None]
    # one company, one block, one id
    assert len({one.group_id for one in places + again}) == 4


def test_what_pairs_differ_in() -> None:
    shared = tenants("fake+other", "fake", "other")
    assert design(solo("fake"), solo("other"), *shared).primary == "framework"
    assert design(solo("fake"), *shared).primary == "colocation"
    assert design(*shared, swept=[]).primary == "framework"
    assert design(*shared, *tenants("2*fake", "fake", "fake")).primary == "colocation"


def test_a_co_location_is_launched_whole_or_not_at_all() -> None:
    first, second = tenants("fake+other", "fake", "other")
    broken = condition("other", extra=dict(second.settings), tenant=2, tenants=2, entry=AllocationEntry("why not"))
    study = design(solo("fake"), first, broken)
    assert [[one.settings["colocation"] for one in group] for group in study.groups()] == [["solo"]]
    found = {spec.framework.name: outcome for spec, outcome in study.unlaunched_trials()}
    assert {one.kind for one in found.values()} == {OutcomeKind.NOT_APPLICABLE}
    assert found["fake"].reason == "co-tenant: mode has no meaning here"
    assert found["fake"].text == "fake+other is launched whole or not at all; its tenant 2: why not"


def test_a_plan_has_no_company() -> None:
    study = design(*tenants("2*jax", "jax", "jax", evidence=EvidenceRequest.compiled))
    assert study.groups() == []
    assert {outcome.reason for _, outcome in study.unlaunched_trials()} == {"co-location acts at run time"}


def test_a_tpu_takes_one_process() -> None:
    pair = tenants("2*jax", "jax", "jax", device=DeviceSpec("tpu"), evidence=EvidenceRequest.measured)
    assert {outcome.reason for _, outcome in design(*pair).unlaunched_trials()} == {"one process a chip"}


def test_slow_downs_are_of_the_same_condition_alone() -> None:
    first, second = tenants("fake+other", "fake", "other")
    small = tenants("2*fake", "fake", "fake", extra={"n": 2})
    study = design(solo("fake"), solo("other"), solo("fake", extra={"n": 1}), first, second, *small)
    found = [(shared.settings["colocation"], alone.framework.name) for shared, alone in study.slow_downs()]
    assert found == [("fake+other", "fake"), ("fake+other", "other")]


def test_blocks_go_on_until_slow_downs_are_precise() -> None:
    study = design(solo("fake"), *tenants("2*fake", "fake", "fake"))
    alone, first, second = study.conditions

    def records(noise: float) -> list[object]:
        made = []
        for block in range(4):
            slow = 0.2 * math.exp(noise * (-1) ** block)
            for one, seconds in ((alone, 0.1), (first, 0.2), (second, slow)):
                made.append(record(block, windows=(seconds,) * 3, condition_id=one.condition_id))
        return made

    # sd of ±n over four blocks is n·√(4/3); the half-width is 3.182/2 times that
    assert stopping.precise_enough(study, records(0.005), 0.0093)  # type: ignore[arg-type]
    assert not stopping.precise_enough(study, records(0.005), 0.0091)  # type: ignore[arg-type]


def test_a_tenancy_survives_its_line() -> None:
    from runners import lines

    spec = trial(tenants("2*fake", "fake", "fake")[1], 3, 0, 1)
    back = lines.spec_from_dict(lines.decode_line(lines.encode_line(spec)))
    assert back == spec
    assert isinstance(back.tenancy, Tenancy)
