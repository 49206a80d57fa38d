"""Tenants of the fake framework, as real processes: they meet, they overlap, and none takes another with it."""

from __future__ import annotations

import itertools
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from runners.records import OutcomeKind, Phase, Timings, TrialRecord
from runners.specs import FrameworkSpec, Tenancy, TrialSpec
from study import processes
from study.starters import Starters
from study.tenancy import TenancySupervisor, span
from tests.study.samples import PROTOCOL, spec
from tests.study.test_supervise import FAKE, Silent, alive

WHOLE = replace(PROTOCOL, interleave=False, windows=8, window_seconds=0.02)


@pytest.fixture(autouse=True)
def fake_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    processes.become_subreaper()


@pytest.fixture(scope="module")
def starters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starters]:
    with Starters(tmp_path_factory.mktemp("zygotes")) as shared:
        yield shared


def company(*faults: str, start: str = "zygote", stagger: float = 0.0, **limits: float) -> list[TrialSpec]:
    """Tenants, each told when to strike; `limits` are deadlines in seconds by phase."""
    protocol = replace(WHOLE, deadline_seconds={"total": 20.0, **limits})
    name = f"{len(faults)}*fake"
    return [
        spec(
            number,
            framework=FrameworkSpec("fake", fault),
            protocol=protocol,
            settings={"framework": "fake", "compile": fault, "protocol.start": start},
            tenancy=Tenancy(name, number, len(faults), "g" * 16, stagger),
        )
        for number, fault in enumerate(faults, start=1)
    ]


def run(starters: Starters, folder: Path, group: list[TrialSpec]) -> list[TrialRecord]:
    """The tenants' records in the order of the group."""
    records: list[TrialRecord] = []
    TenancySupervisor(starters, folder, Silent()).run(group, records.append)
    found = {record.spec.trial_id: record for record in records}
    assert len(found) == len(records) == len(group)
    return [found[one.trial_id] for one in group]


def stamps(records: list[TrialRecord], name: str) -> list[float]:
    return [record.report.timings.phase_start_seconds[name] for record in records]


@pytest.mark.parametrize("start", ["zygote", "spawn"])
def test_all_tenants_are_ready_before_the_first_goes_on(starters: Starters, tmp_path: Path, start: str) -> None:
    records = run(starters, tmp_path, company("", "", "", start=start))
    assert [(record.outcome.kind, record.start) for record in records] == [(OutcomeKind.OK, start)] * 3
    assert max(stamps(records, "ready_device")) <= min(stamps(records, "place"))
    assert max(stamps(records, "ready_windows")) <= min(stamps(records, "measure"))
    assert max(stamps(records, "ready_end")) <= min(stamps(records, "teardown"))


def test_windows_overlap_but_for_the_edges(starters: Starters, tmp_path: Path) -> None:
    records = run(starters, tmp_path, company("", ""))
    spans = [span(record.report.timings) for record in records]
    for record, other in zip(records, reversed(spans), strict=True):
        timings, counters = record.report.timings, record.report.counters
        assert other is not None
        within = [
            other[0] <= start and start + seconds <= other[1]
            for start, seconds in zip(timings.window_start_seconds, timings.window_seconds, strict=True)
        ]
        assert counters["overlapped_windows"] == sum(within)
        # whoever began first may have measured a few windows while the other was still on its way
        assert within[-1]
        assert within == sorted(within)
        assert counters["company_windows"] >= 0
    # the first to be done goes on until the other is
    assert max(record.report.counters["company_windows"] for record in records) > 0


@pytest.mark.parametrize("phase", ["import", "place", "compile", "warmup", "wait", "measure", "teardown"])
@pytest.mark.parametrize(
    ("action", "kind", "reason"),
    [
        ("raise", OutcomeKind.CRASH, "RuntimeError"),
        ("memory", OutcomeKind.OOM, "host"),
        ("SIGKILL", OutcomeKind.CRASH, "SIGKILL"),
        ("sleep", OutcomeKind.TIMEOUT, None),
        ("stop", OutcomeKind.TIMEOUT, None),
    ],
)
def test_a_tenant_that_ends_takes_nobody_with_it(
    starters: Starters, tmp_path: Path, phase: str, action: str, kind: OutcomeKind, reason: str | None
) -> None:
    group = company("", f"{phase}:{action}", "", **({phase: 0.5} if kind is OutcomeKind.TIMEOUT else {}))
    first, struck, third = run(starters, tmp_path, group)
    assert [first.outcome.kind, third.outcome.kind] == [OutcomeKind.OK, OutcomeKind.OK], first.outcome.text
    expected = reason or f"deadline of 0.5 s for the phase {phase}"
    assert (struck.outcome.kind, struck.outcome.reason, struck.outcome.phase) == (kind, expected, Phase(phase))
    for survivor in (first, third):
        assert len(survivor.report.timings.window_seconds) == WHOLE.windows
        assert survivor.report.warnings[-1] == f"not in whole company: tenant 2 (fake) ended {kind}"
        assert (survivor.report.counters["overlapped_windows"] == 0) == (phase != "teardown")
    assert [alive(one.trial_id) for one in group] == [[], [], []]


def test_tenants_that_all_die_are_all_recorded(starters: Starters, tmp_path: Path) -> None:
    records = run(starters, tmp_path, company("place:SIGKILL", "warmup:raise"))
    assert [record.outcome.reason for record in records] == ["SIGKILL", "RuntimeError"]


def test_a_process_left_behind_is_ended_and_said(starters: Starters, tmp_path: Path) -> None:
    before = {one.pid for one in psutil.Process().children(recursive=True)}
    records = run(starters, tmp_path, company("", "measure:escapee"))
    assert {one.pid for one in psutil.Process().children(recursive=True)} <= before | starters.pids()
    for record in records:
        assert record.outcome.kind is OutcomeKind.OK
        assert "1 processes outlived the co-location and were ended; whose is not known" in record.report.warnings


def test_a_stagger_parts_the_openings(starters: Starters, tmp_path: Path) -> None:
    records = run(starters, tmp_path, company("", "", "", stagger=0.3))
    assert {record.outcome.kind for record in records} == {OutcomeKind.OK}
    opened, placed = stamps(records, "place"), stamps(records, "probe")
    for number, (before, after) in enumerate(itertools.pairwise(opened)):
        assert after - before >= 0.25
        assert placed[number] <= after
    assert max(stamps(records, "ready_windows")) <= min(stamps(records, "measure"))


def test_a_stagger_goes_on_where_the_first_dies(starters: Starters, tmp_path: Path) -> None:
    records = run(starters, tmp_path, company("place:SIGKILL", "", stagger=0.2))
    assert [record.outcome.kind for record in records] == [OutcomeKind.CRASH, OutcomeKind.OK]


def test_an_interrupt_ends_every_tenant_and_leaves_no_record(starters: Starters, tmp_path: Path) -> None:
    records: list[TrialRecord] = []
    group = company("", "warmup:grandchild")
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        TenancySupervisor(starters, tmp_path, Silent()).run(group, records.append)
    assert records == []
    assert [alive(trial.trial_id) for trial in group] == [[], []]


def test_a_tenant_that_cannot_start_is_a_row(starters: Starters, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("no program")
    broken.chmod(0o755)
    sound, other = company("", "", start="spawn")
    other = replace(other, framework=FrameworkSpec("fake", "", str(broken)))
    first, second = run(starters, tmp_path, [sound, other])
    assert (first.outcome.kind, second.outcome.reason) == (OutcomeKind.OK, "not started")


def test_the_span_of_a_tenant_ends_with_its_teardown() -> None:
    timings = Timings(window_start_seconds=[3.0, 4.0], window_seconds=[0.9, 0.9])
    assert span(timings) is None
    timings.phase_start_seconds = {"teardown": 7.5}
    assert span(timings) == (3.0, 7.5)
