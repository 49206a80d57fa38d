"""A sweep of twelve trials over one launcher, and what is looked at of it afterwards.

The framework is the fake one: a trial takes two seconds.
"""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from runners.lines import decode_line
from study.journal import read_past

TESTS = Path(__file__).parent.parent
FAKE_FRAMEWORK = str(TESTS / "fake_framework")
CONDITIONS, BLOCKS = 3, 4
TRIALS = CONDITIONS * BLOCKS
SWEEP = [
    "-m", f"hydra.searchpath=[file://{TESTS / 'conf'}]", "framework=fake", "allocation=fake", "workload=elementwise",
    "workload.size=tiny", "protocol=smoke", "workload.batch_size=8,16,24", f"study.blocks={BLOCKS}",
    "protocol.windows=20", "protocol.window_seconds=0.05", "protocol.interleave=false",
]  # fmt: skip
COMPARED = ("trial_id", "condition_id", "block", "order", "framework", "allocation", "batch_size", "outcome", "reason")
WAIT_SECONDS = 180.0
SWEEP_SECONDS = 600.0


_HEADS: list[subprocess.Popen[str]] = []


@contextlib.contextmanager
def heads_ended() -> Iterator[None]:
    """No head is left afterwards, and none of the workers that a launcher keeps as its children."""
    try:
        yield
    finally:
        for process in _HEADS:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def here(command: list[str], folder: Path) -> list[str]:  # noqa: ARG001
    """The head runs on this machine, in its own folder."""
    return command


@dataclass
class Launcher:
    """How this launcher is asked for, what its commands need, and where the head runs."""

    name: str
    arguments: list[str] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    on: Callable[[list[str], Path], list[str]] = here

    def start(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """The sweep in the study's folder `outputs/NAME` below `folder`."""
        command = [sys.executable, "-m", "study", *SWEEP, f"hydra/launcher={self.name}", *self.arguments, *arguments]
        variables = {**os.environ, **self.variables, "PYTHONPATH": FAKE_FRAMEWORK, "COLUMNS": "160"}
        process = subprocess.Popen(
            self.on(command, folder), cwd=folder, env=variables,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip
        _HEADS.append(process)
        return process

    def sweep(self, folder: Path, name: str, *arguments: str, report: bool = False) -> tuple[int, str]:
        """The whole sweep, or what is missing of it: exit status and what it printed."""
        process = self.start(folder, f"study.name={name}", f"study.report={str(report).lower()}", *arguments)
        return finished(process)

    def kill_head(self, process: subprocess.Popen[str]) -> None:
        """Kill the head alone: on an emulated node it is the child of the command that went there."""
        (psutil.Process(process.pid).children()[0] if self.on is not here else process).kill()
        process.wait()
        # not read to its end: workers that live on may hold it open
        assert process.stdout is not None
        process.stdout.close()


def finished(process: subprocess.Popen[str]) -> tuple[int, str]:
    """Wait for a sweep: exit status and what it printed."""
    text, _ = process.communicate(timeout=SWEEP_SECONDS)
    return process.returncode, text


def until_at_work(study: Path, process: subprocess.Popen[str], records: int = 2) -> None:
    """Wait until so many trials are on record and another one runs."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (len(read_past(study).records) >= records and workers(study)):
        if time.monotonic() > deadline or process.poll() is not None:
            process.kill()
            raise SystemExit(f"the sweep did not come so far:\n{process.communicate()[0]}")
        time.sleep(0.05)


def workers(study: Path) -> list[int]:
    """The workers at work: processes that have a batch's file open, while a trial has begun and has not ended."""
    past = read_past(study)
    if not set(past.begun) - past.ended:
        return []
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            links = [str(one.readlink()) for one in (process / "fd").iterdir()]
            if any(one.startswith(str(study / "jobs")) for one in links):
                found.append(int(process.name))
    return found


def kill_worker(study: Path) -> None:
    """End one worker without mercy."""
    os.kill(workers(study)[0], signal.SIGKILL)


def compare(folder: Path, name: str, text: str) -> None:
    """Row for row with the local sweep, and no trial that was answered twice."""
    local, ours = (_rows(folder / "outputs" / one) for one in ("local", name))
    check(len(local) == TRIALS, f"the local sweep has {TRIALS} rows, found {len(local)}", text)
    check(ours == local, f"the rows of {name} are those of the local sweep", f"{text}\n{ours}\n{local}")
    counted = answered(folder / "outputs" / name)
    check(set(counted.values()) == {1}, f"no trial was answered twice, found {counted}", text)


def _rows(study: Path) -> list[tuple[str, ...]]:
    with (study / "trials.csv").open(newline="") as file:
        return [tuple(row[column] for column in COMPARED) for row in csv.DictReader(file)]


def answered(study: Path) -> Counter[str]:
    """Trial id → number of ok records in all journals."""
    lines = [line for path in (study / "journal").glob("*.jsonl") for line in path.read_text().splitlines()]
    records = [body for line in lines if (body := decode_line(line))["kind"] == "trial"]
    return Counter(one["spec"]["trial_id"] for one in records if one["outcome"]["kind"] == "ok")


def check(fine: bool, what: str, text: str) -> None:
    """Say what holds; end the test where it does not."""
    if not fine:
        raise SystemExit(f"NOT SO: {what}\n{text}")
    print(f"    {what.partition(', found')[0]}", flush=True)
