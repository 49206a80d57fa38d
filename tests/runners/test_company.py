"""A tenant's own half of a co-location, with a real framework: where it waits, and that it steps on at the end."""

from __future__ import annotations

from runners.specs import Tenancy
from tests.runners.harness import make_spec, run_trial


def test_a_tenant_waits_before_the_device_before_its_windows_and_after_them() -> None:
    run = run_trial(make_spec(tenancy=Tenancy("jax+jax", 1, 2, "g")))
    assert run.status == 0, run.stderr
    told = [event.get("barrier") or event.get("phase") for event in run.events if event["event"] in ("ready", "phase")]
    assert told == [
        "import", "device", "place", "probe", "compile", "first_step", "warmup", "calibrate", "wait", "windows",
        "measure", "end", "teardown",
    ]  # fmt: skip
    stamps = run.report.timings.phase_start_seconds
    ready = {event["barrier"]: event["at_seconds"] for event in run.events if event["event"] == "ready"}
    assert stamps["import"] < ready["device"] < stamps["place"] < ready["windows"] < stamps["measure"] < ready["end"]
    assert run.report.counters["company_windows"] >= 0
    assert len(run.report.timings.window_seconds) == 3


def test_a_solo_trial_meets_nobody() -> None:
    run = run_trial(make_spec())
    assert [event for event in run.events if event["event"] == "ready"] == []
    assert "company_windows" not in run.report.counters
