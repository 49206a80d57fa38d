"""Real processes of the fake framework, supervised: every end is recognised, and nothing survives."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from runners.records import OutcomeKind, Phase, TrialRecord
from runners.specs import AllocationSpec, FrameworkSpec, TrialSpec
from study import processes
from study.starters import Starters
from study.supervise import Supervisor
from tests.study.samples import PROTOCOL, spec

FAKE = Path(__file__).parent.parent / "fake_framework"


class Silent:
    """A watcher that remembers the phases."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []

    def phase(self, spec: TrialSpec, phase: Phase) -> None:  # noqa: ARG002
        self.phases.append(phase)

    def tick(self) -> None:
        pass


@pytest.fixture(autouse=True)
def fake_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    processes.become_subreaper()


@pytest.fixture(scope="module")
def starters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Starters]:
    with Starters(tmp_path_factory.mktemp("zygotes")) as shared:
        yield shared


def run(starters: Starters, folder: Path, *group: TrialSpec) -> list[TrialRecord]:
    records: list[TrialRecord] = []
    Supervisor(starters, folder, Silent()).run(group, records.append)
    return records


def told(
    fault: str, *, block: int = 0, start: str = "zygote", seconds: float = 20.0, phase: str = "total"
) -> TrialSpec:
    """A trial that strikes at a phase, with a deadline."""
    protocol = replace(PROTOCOL, deadline_seconds={"total": 20.0, phase: seconds})
    settings = {"framework": "fake", "compile": fault, "protocol.start": start}
    return spec(block, framework=FrameworkSpec("fake", fault), protocol=protocol, settings=settings)


def alive(trial_id: str) -> list[int]:
    """Processes that were started with this trial's id in their environment."""
    mark = f"STUDY_TRIAL_ID={trial_id}"
    found = []
    for process in psutil.process_iter():
        try:
            if mark in [f"{key}={value}" for key, value in process.environ().items()]:
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


@pytest.mark.parametrize("start", ["zygote", "spawn"])
def test_a_trial_runs_to_its_end(starters: Starters, tmp_path: Path, start: str) -> None:
    (record,) = run(starters, tmp_path, told("", start=start))
    assert (record.outcome.kind, record.outcome.text, record.start) == (OutcomeKind.OK, "", start)
    assert len(record.report.timings.window_seconds) == PROTOCOL.windows
    assert record.report.warnings[-1:] != ["not forked"]


@pytest.mark.parametrize("phase", ["place", "compile", "warmup", "measure", "teardown"])
@pytest.mark.parametrize(
    ("action", "kind", "reason"),
    [
        ("raise", OutcomeKind.CRASH, "RuntimeError"),
        ("memory", OutcomeKind.OOM, "host"),
        ("SIGSEGV", OutcomeKind.CRASH, "SIGSEGV"),
        ("SIGKILL", OutcomeKind.CRASH, "SIGKILL"),
        ("SIGABRT", OutcomeKind.CRASH, "SIGABRT"),
        ("exit0", OutcomeKind.CRASH, "exit without result"),
        ("exit3", OutcomeKind.CRASH, "SystemExit"),
        ("garbage", OutcomeKind.CRASH, "unreadable event"),
        ("escapee", OutcomeKind.INVALID, "leftover processes"),
    ],
)
def test_every_end_at_every_phase(
    starters: Starters, tmp_path: Path, phase: str, action: str, kind: OutcomeKind, reason: str
) -> None:
    (record,) = run(starters, tmp_path, told(f"{phase}:{action}"))
    assert (record.outcome.kind, record.outcome.reason) == (kind, reason), record.outcome.text
    if kind is not OutcomeKind.INVALID and action != "garbage":
        assert record.outcome.phase is Phase(phase)


@pytest.mark.parametrize("action", ["sleep", "stop", "deaf", "grandchild", "forks"])
@pytest.mark.parametrize("start", ["zygote", "spawn"])
def test_a_deadline_ends_the_whole_tree(starters: Starters, tmp_path: Path, action: str, start: str) -> None:
    before = set(psutil.pids())
    trial = told(f"warmup:{action}", start=start, seconds=0.3, phase="warmup")
    (record,) = run(starters, tmp_path, trial)
    assert (record.outcome.kind, record.outcome.phase) == (OutcomeKind.TIMEOUT, Phase.WARMUP)
    assert record.outcome.reason == "deadline of 0.3 s for the phase warmup"
    assert alive(trial.trial_id) == []
    assert {one.pid for one in psutil.Process().children(recursive=True)} <= before | starters.pids()


def test_a_failed_trial_keeps_what_it_had_measured(starters: Starters, tmp_path: Path) -> None:
    (record,) = run(starters, tmp_path, told("measure:SIGKILL"))
    assert record.report.timings.steps_per_window is not None
    assert len(record.report.match.losses) == PROTOCOL.match_steps


@pytest.mark.parametrize("start", ["zygote", "spawn"])
def test_a_probe_runs_a_few_steps_and_times_nothing(starters: Starters, tmp_path: Path, start: str) -> None:
    trial = told("", start=start)
    (record,) = run(starters, tmp_path, replace(trial, search="batch_size"))
    timings = record.report.timings
    assert record.outcome.kind is OutcomeKind.OK
    assert PROTOCOL.warmup_steps <= len(timings.warmup_step_seconds) <= PROTOCOL.warmup_max_steps
    assert (timings.window_seconds, timings.steps_per_window) == ([], None)
    assert Phase.MEASURE.value not in timings.phase_start_seconds


def test_trials_of_a_group_take_turns_and_one_that_dies_costs_only_itself(starters: Starters, tmp_path: Path) -> None:
    first, second, third = told("", block=1), told("measure:SIGSEGV", block=1), told("", block=2)
    records = {record.spec.trial_id: record for record in run(starters, tmp_path, first, second, third)}
    kinds = [records[one.trial_id].outcome.kind for one in (first, second, third)]
    assert kinds == [OutcomeKind.OK, OutcomeKind.CRASH, OutcomeKind.OK]
    windows = sorted(
        (start, trial.trial_id)
        for trial in (first, third)
        for start in records[trial.trial_id].report.timings.window_start_seconds
    )
    rounds = [{name for _, name in windows[index : index + 2]} for index in range(0, len(windows), 2)]
    assert rounds == [{first.trial_id, third.trial_id}] * PROTOCOL.windows


def test_windows_of_a_group_never_overlap(starters: Starters, tmp_path: Path) -> None:
    records = run(starters, tmp_path, told("", block=3), told("", block=4))
    spans = sorted(
        (start, start + seconds)
        for record in records
        for start, seconds in zip(
            record.report.timings.window_start_seconds, record.report.timings.window_seconds, strict=True
        )
    )
    assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans))


def test_an_interrupt_ends_every_tree_and_leaves_no_record(starters: Starters, tmp_path: Path) -> None:
    records: list[TrialRecord] = []
    trials = [told("", block=5), told("warmup:grandchild", block=6)]
    threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        Supervisor(starters, tmp_path, Silent()).run(trials, records.append)
    assert records == []
    assert [alive(trial.trial_id) for trial in trials] == [[], []]


def test_an_interpreter_that_cannot_start_is_a_row(starters: Starters, tmp_path: Path) -> None:
    broken = tmp_path / "python"
    broken.write_text("no program")
    broken.chmod(0o755)
    trial = told("", start="spawn")
    (record,) = run(starters, tmp_path, replace(trial, framework=FrameworkSpec("fake", "jit", str(broken))))
    assert (record.outcome.kind, record.outcome.reason) == (OutcomeKind.CRASH, "not started")


def test_a_zygote_with_a_backend_refuses_and_the_trial_is_spawned(starters: Starters, tmp_path: Path) -> None:
    trial = replace(told(""), allocation=AllocationSpec("default", environment={"FAKE_BACKEND": "1"}))
    (record,) = run(starters, tmp_path, trial)
    assert (record.outcome.kind, record.start) == (OutcomeKind.OK, "spawn")
    assert "holds a backend of fake" in record.report.warnings[-1]


def test_a_dying_zygote_costs_no_trial(starters: Starters, tmp_path: Path) -> None:
    run(starters, tmp_path, told("", block=7))
    for pid in starters.pids():
        os.kill(pid, signal.SIGKILL)
    time.sleep(0.1)
    (record,) = run(starters, tmp_path, told("", block=8))
    assert (record.outcome.kind, record.start) == (OutcomeKind.OK, "spawn")
    (record,) = run(starters, tmp_path, told("", block=9))
    assert (record.outcome.kind, record.start) == (OutcomeKind.OK, "zygote")


def test_a_zygote_whose_spare_has_died_costs_no_trial(tmp_path: Path) -> None:
    with Starters(tmp_path) as own:
        run(own, tmp_path, told("", block=20))
        _, spare = sorted(own.pids(), key=lambda pid: psutil.Process(pid).create_time())
        os.kill(spare, signal.SIGKILL)
        while psutil.Process(spare).status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)
        records = [run(own, tmp_path, told("", block=number))[0] for number in (21, 22)]
    assert [one.outcome.kind for one in records] == [OutcomeKind.OK] * 2
    assert [one.start for one in records] == ["spawn", "zygote"]
    assert "not forked from a zygote but spawned" in records[0].report.warnings[-1]


def test_our_children_are_those_of_the_process_table() -> None:
    started = [subprocess.Popen(["sleep", "60"]) for _ in range(3)]
    try:
        threads = [threading.Thread(target=lambda: started.append(subprocess.Popen(["sleep", "60"])))]
        for one in threads:
            one.start()
            one.join()
        expected = {one.pid for one in psutil.Process().children()}
        assert processes.children() == expected >= {one.pid for one in started}
    finally:
        for one in started:
            one.kill()
            one.wait()


def test_a_child_of_a_trial_that_ended_is_left_over_whatever_it_shares_with_it(
    starters: Starters, tmp_path: Path
) -> None:
    """The escapee left session, family and pipes; it is found because it has become ours, and ended."""
    before = processes.children()
    (record,) = run(starters, tmp_path, told("measure:escapee", block=30))
    assert (record.outcome.kind, record.outcome.reason) == (OutcomeKind.INVALID, "leftover processes")
    assert processes.children() - starters.pids() <= before


def test_inherited_allocation_variables_do_not_reach_the_trial(
    starters: Starters, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "9")
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    (record,) = run(starters, tmp_path, told("", start="spawn"))
    assert {"XLA_PYTHON_CLIENT_MEM_FRACTION", "MALLOC_ARENA_MAX"} <= set(record.scrubbed_environment)


def test_few_zygotes_stay_alive(tmp_path: Path) -> None:
    with Starters(tmp_path) as own:
        for number in range(6):
            trial = replace(
                told("", block=number), allocation=AllocationSpec("default", environment={"NUMBER": str(number)})
            )
            (record,) = run(own, tmp_path, trial)
            assert record.start == "zygote"
            # each with its spare
            assert len(own.pids()) == 2 * min(number + 1, 4)
        pids = own.pids()
    assert not any(psutil.pid_exists(pid) for pid in pids)
