"""What is done to a sweep over any launcher: a job is killed, the head is killed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sweeps import Launcher, answered, check, compare, finished, until_at_work

from study.journal import read_past


def a_killed_job(launcher: Launcher, folder: Path, kill: Callable[[Path], None]) -> None:
    """One job is killed while its trial runs: a record says so after the sweep, and a resume runs what is missing."""
    process = launcher.start(folder, "study.name=killed", "study.report=false")
    study = folder / "outputs" / "killed"
    until_at_work(study, process)
    kill(study)
    one_lost_and_resumed(launcher, folder, "killed", finished(process))


def one_lost_and_resumed(launcher: Launcher, folder: Path, name: str, ended: tuple[int, str]) -> None:
    """The sweep ended without one worker: its record is there, and the same command again runs what is missing."""
    status, text = ended
    past = read_past(folder / "outputs" / name)
    lost = [one for one in past.records.values() if one.outcome.reason == "worker lost"]
    check(len(lost) == 1, f"one trial lost with its worker, found {len(lost)}", text)
    check(status == 1, f"exit status 1 after a lost worker, found {status}", text)
    kept = {key for key, one in past.records.items() if one.outcome.kind == "ok"}
    status, text = launcher.sweep(folder, name, report=True)
    check(status == 0, f"the resume ends with 0, found {status}", text)
    check(kept <= set(answered(folder / "outputs" / name)), "every acknowledged trial is still there", text)
    compare(folder, name, text)


def a_killed_head(launcher: Launcher, folder: Path) -> None:
    """The head is killed and started again while workers may still be at work."""
    process = launcher.start(folder, "study.name=head", "study.report=false")
    study = folder / "outputs" / "head"
    until_at_work(study, process)
    launcher.kill_head(process)
    kept = answered(study)
    status, text = launcher.sweep(folder, "head", report=True)
    check(status == 0, f"the second head ends with 0, found {status}", text)
    check(not kept - answered(study), "every acknowledged trial is still there", text)
    compare(folder, "head", text)
