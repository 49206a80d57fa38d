"""Randomised complete blocks, groups, applicability, and when to stop."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

import pytest
from scipy import stats

from runners.records import Evidence, OutcomeKind
from runners.specs import ChipSpec, DeviceSpec
from study import stopping
from study.applicability import evidence
from study.design import Design, plan, trial
from study.errors import RequestError
from study.schema import Allocation, AllocationEntry, EvidenceRequest
from tests.study.samples import PROTOCOL, condition, record

V5E = ChipSpec("v5e", "tpu", "v5e:2x2", usable_bytes=2**34)


def design(*conditions: object, **rest: object) -> Design:
    chosen = conditions or tuple(
        condition(framework, compile, extra={"workload": workload})
        for framework, compile in (("fake", "a"), ("fake", "b"), ("other", "a"))
        for workload in ("x", "y")
    )
    return plan(chosen, **{"swept": ["framework", "workload"], "primary": None, "seed": 5, **rest})  # type: ignore[arg-type]


def test_every_condition_stands_once_in_every_block() -> None:
    study = design()
    for block in range(study.blocks):
        ids = [spec.condition_id for group in study.block(block) for spec in group]
        assert Counter(ids) == Counter(one.condition_id for one in study.conditions)


def test_order_and_ids_follow_the_seed_alone() -> None:
    assert design().plain() == design().plain()
    assert design().plain()["order"] != design(seed=6).plain()["order"]
    ids = [spec.trial_id for block in range(3) for group in design().block(block) for spec in group]
    assert len(set(ids)) == 18


def test_each_order_of_two_is_equally_likely() -> None:
    study = design(condition("fake", "a"), condition("fake", "b"), blocks=400)
    first = Counter(study.block(block)[0][0].framework.compile for block in range(400))
    # 400 fair coins: four standard deviations are 40
    assert abs(first["a"] - 200) < 40


def test_trials_of_a_block_get_the_same_seed_and_blocks_differ() -> None:
    study = design()
    seeds = [{spec.seed for group in study.block(block) for spec in group} for block in range(3)]
    assert [len(one) for one in seeds] == [1, 1, 1]
    assert len(set.union(*seeds)) == 3


def test_a_group_differs_in_the_primary_factor_only() -> None:
    for group in design().block(0):
        assert len({spec.settings["workload"] for spec in group}) == 1
        assert len({(spec.framework.name, spec.framework.compile) for spec in group}) == 3
    by_workload = design(primary="workload").block(0)
    assert [len(group) for group in by_workload] == [2, 2, 2]


def test_an_unknown_primary_factor_is_refused_with_the_choice() -> None:
    with pytest.raises(RequestError, match=r"study\.primary=colour is no factor; it takes one of allocation, compile"):
        design(primary="colour")


def test_a_level_named_twice_is_two_replicates() -> None:
    study = design(condition("fake"), condition("other"), condition("other"))
    specs = [spec for group in study.block(0) for spec in group]
    assert len({spec.trial_id for spec in specs}) == 3
    assert Counter(spec.framework.name for spec in specs) == {"fake": 1, "other": 2}


def test_what_means_nothing_or_is_absent_is_not_launched() -> None:
    reasons = {
        "no entry": condition(entry=None, extra={"n": 1}),
        "mode has no meaning here": condition(entry=AllocationEntry(not_applicable="why"), extra={"n": 2}),
        "no cap": condition(allocation=Allocation(fraction=0.5), extra={"n": 3}),
        "mode acts at run time": condition(
            evidence=EvidenceRequest.compiled, allocation=Allocation("growth"), extra={"n": 4}
        ),
        "not compiled as a whole": condition("tf", "graph", evidence=EvidenceRequest.compiled, extra={"n": 5}),
        "chip of another device": condition(device=DeviceSpec("gpu", "v5e", sheet=V5E), extra={"n": 6}),
        "device absent": condition(
            device=DeviceSpec("tpu", "v5e", sheet=V5E), evidence=EvidenceRequest.measured, extra={"n": 7}
        ),
    }
    study = design(condition(), *reasons.values())
    assert [[spec.settings.get("n") for spec in group] for group in study.block(0)] == [[None]]
    found = {outcome.reason: outcome.kind for _, outcome in study.unlaunched_trials()}
    assert set(found) == set(reasons)
    assert found.pop("device absent") is OutcomeKind.UNAVAILABLE
    assert set(found.values()) == {OutcomeKind.NOT_APPLICABLE}


def test_compiled_conditions_run_once_and_measured_ones_in_every_block() -> None:
    measured = condition("jax", "jit")
    planned = condition("jax", "jit", evidence=EvidenceRequest.compiled, extra={"n": 2})
    study = design(measured, planned, blocks=3)
    runs = [[spec.evidence for group in study.block(block) for spec in group] for block in range(3)]
    assert [sorted(block) for block in runs] == [["compiled", "measured"], ["measured"], ["measured"]]
    assert study.trial_count(3) == 4


def test_evidence_follows_the_chip(monkeypatch: pytest.MonkeyPatch) -> None:
    chip = condition(device=DeviceSpec("tpu", "v5e", sheet=V5E))
    assert evidence(chip) is Evidence.COMPILED
    monkeypatch.setattr("study.devices.absence", lambda _: None)
    for found, kind in (("v5e", Evidence.MEASURED), ("v4", Evidence.COMPILED), (None, Evidence.COMPILED)):
        monkeypatch.setattr("study.chips.found", lambda _, found=found: found)
        assert evidence(chip) is kind
    asked = condition(device=DeviceSpec("tpu", "v5e", sheet=V5E), evidence=EvidenceRequest.compiled)
    monkeypatch.setattr("study.chips.found", lambda _: "v5e")
    assert evidence(asked) is Evidence.COMPILED


def test_a_compiler_gets_twice_the_time() -> None:
    limits = {"compile": 300.0, "total": 600.0, "import": 120.0}
    protocol = replace(PROTOCOL, deadline_seconds=limits)
    asked = condition("jax", "jit", protocol=protocol, evidence=EvidenceRequest.compiled)
    assert trial(asked, 0, 0, 0).protocol.deadline_seconds == {"compile": 600.0, "total": 1200.0, "import": 120.0}
    assert trial(condition(protocol=protocol), 0, 0, 0).protocol.deadline_seconds == limits


def test_a_half_width_is_students() -> None:
    values = [0.010, 0.012, 0.009, 0.011]
    low, high = stats.t.interval(0.95, 3, loc=0, scale=stats.sem(values))
    assert stopping.half_width(values) == pytest.approx((high - low) / 2, rel=1e-3)
    assert stopping.half_width(values[:2]) is None
    for n, quantile in enumerate(stopping.T_975, start=1):
        assert quantile == pytest.approx(stats.t.ppf(0.975, n), abs=6e-4)


def test_blocks_go_on_until_the_ratio_is_precise() -> None:
    study = design(condition("fake"), condition("other"))
    a, b = study.conditions

    def records(noise: float) -> list[object]:
        rows = []
        for block in range(4):
            time = 0.1 * math.exp(noise * (-1) ** block)
            rows += [record(block, windows=(time,) * 3, condition_id=a.condition_id)]
            rows += [record(block, windows=(0.1,) * 3, condition_id=b.condition_id)]
        return rows

    # sd of ±n over four blocks is n·√(4/3); the half-width is 3.182/2 times that
    assert stopping.precise_enough(study, records(0.005), 0.0093)  # type: ignore[arg-type]
    assert not stopping.precise_enough(study, records(0.005), 0.0091)  # type: ignore[arg-type]


def test_a_crowd_that_would_take_turns_is_refused_and_told_how_to_run() -> None:
    """Each would stay alive until all have measured, and none be on record before."""

    def asked(count: int, interleave: bool) -> Design:
        protocol = replace(PROTOCOL, interleave=interleave)
        conditions = [condition(extra={"workload.batch_size": n}, protocol=protocol) for n in range(count)]
        return plan(conditions, swept=["workload.batch_size"], primary=None, seed=0, blocks=1)

    with pytest.raises(RequestError, match=r"65 conditions would take turns.*protocol\.interleave=false runs them"):
        asked(65, interleave=True)
    assert asked(64, interleave=True).trial_count(1) == 64
    assert asked(65, interleave=False).trial_count(1) == 65
