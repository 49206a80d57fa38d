"""What the harness itself can do: 10,000 conditions, and 32 workers whose trials take 5 ms of sleep.

    python -m tests.benchmarks.ceiling [--conditions 10000] [--workers 32]

First a real sweep on this machine, bounded in time: seconds until its first trial, trials per second, the parent's
peak memory. Then a head with workers, each a process that stands for a node of its own (so none waits for the others'
processors), whose supervisor only sleeps: trials per second, and where a worker's time goes.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console

from runners.records import Outcome, OutcomeKind, Phase, TrialRecord
from runners.specs import TrialSpec
from study import dispatch, journal, leases, worker
from study.config import StudyOptions
from study.design import plan
from study.journal import read_past
from tests.study.samples import PROTOCOL, condition, record

TESTS = Path(__file__).parent.parent
TRIAL_SECONDS = 0.005
SWEEP_SECONDS = 20


def sweep(conditions: int) -> None:
    """A real sweep of real trial processes, stopped after a while."""
    with tempfile.TemporaryDirectory() as name:
        command = [
            sys.executable, "-m", "study", "-m", f"hydra.searchpath=[file://{TESTS / 'conf'}]", "framework=fake",
            "allocation=fake", "workload=elementwise", "workload.size=tiny", "protocol=smoke", "protocol.windows=1",
            "protocol.window_seconds=0.001", "protocol.warmup_steps=1", "protocol.warmup_seconds=0.001",
            "protocol.interleave=false", f"workload.batch_size=range(1,{conditions + 1})", "study.blocks=1",
            "study.name=ceiling", "study.report=false", f"study.max_seconds={SWEEP_SECONDS}",
        ]  # fmt: skip
        variables = {**os.environ, "PYTHONPATH": str(TESTS / "fake_framework")}
        begun, folder = time.monotonic(), Path(name, "outputs", "ceiling")
        process = subprocess.Popen(command, cwd=name, env=variables, stdout=subprocess.DEVNULL)
        first, cpu, peak = None, 0.0, 0
        while process.poll() is None:
            peak = max(peak, _peak_bytes(process.pid))
            if first is None and any(folder.glob("logs/*.err")):
                first = time.monotonic() - begun
                cpu = sum(psutil.Process(process.pid).cpu_times()[:2])
            time.sleep(0.05)
        records = read_past(folder).records.values()
        manifest = (folder / "manifest.yaml").stat().st_size
    starts = sorted(one.report.timings.phase_start_seconds[Phase.LAUNCH.value] for one in records)
    print(f"{conditions:,} conditions: the first trial after {first or float('nan'):.1f} s (goal: 10)")
    print(f"  for which the parent took {cpu:.1f} s of a core")
    print(f"  real trials {(len(starts) - 1) / (starts[-1] - starts[0]):.1f} /s, one after the other")
    print(f"  parent's peak memory {peak / 2**20:.0f} MiB (goal: 500), manifest {manifest / 1024:.0f} KiB")


def workers(conditions: int, count: int) -> None:
    """The head and its workers in real processes and with real files; only the trials are not."""
    alone = replace(PROTOCOL, interleave=False)  # without turns every trial may be on a node of its own
    designed = [condition(extra={"workload.batch_size": number}, protocol=alone) for number in range(conditions)]
    begun = time.monotonic()
    design = plan(designed, swept=["workload.batch_size"], primary=None, seed=0, blocks=1)
    options = StudyOptions("ceiling", 0, None, None, None, False, False, None, None, "none", -(-conditions // count))
    answers: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name):
        status = dispatch.run(design, options, lambda files, _: _launch(files, answers), Console(quiet=True))
        ok = sum(one.outcome.kind is OutcomeKind.OK for one in read_past(Path("outputs", "ceiling")).records.values())
    elapsed = max(one["end"] for one in answers) - min(one["start"] for one in answers)
    print(f"{len(answers)} workers, trials of {1000 * TRIAL_SECONDS:g} ms: {ok / elapsed:.0f} trials/s; {ok:,} of")
    print(
        f"  {conditions:,} ok, exit status {status}, {time.monotonic() - begun:.0f} s from the design to the last count"
    )
    for what in ("sleep", "fsync", "lease", "cpu", "wall"):
        print(f"  {what:>6} {1000 * sum(one[what] for one in answers) / ok:6.2f} ms a trial and worker")
    print(f"  head's peak memory {_peak_bytes(os.getpid()) / 2**20:.0f} MiB (goal: 500)")


def _launch(files: list[Path], answers: list[dict[str, float]]) -> list[str]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["study.worker", "tests.study.samples"])
    with context.Pool(len(files), maxtasksperchild=1) as pool:
        answers += pool.map(_work, files, chunksize=1)
    return []


def _work(path: Path) -> dict[str, float]:
    """One worker, with its clocks."""
    spent = {"sleep": 0.0, "fsync": 0.0, "lease": 0.0}
    journal.os.fsync = _timed(os.fsync, spent, "fsync")  # type: ignore[attr-defined]
    leases._locked = _timed(leases._locked, spent, "lease")
    worker.Supervisor = lambda *_: Sleeper(spent)  # type: ignore[assignment,misc]
    with tempfile.TemporaryDirectory() as own:
        tempfile.tempdir = own  # where the lock on the processors lies: this worker is a node
        start, cpu = time.monotonic(), time.process_time()
        worker.run(path)
        end = time.monotonic()
    return {**spent, "cpu": time.process_time() - cpu, "wall": end - start, "start": start, "end": end}


class Sleeper:
    """In place of a supervisor: a trial is a sleep and a record of the usual size."""

    def __init__(self, spent: dict[str, float]) -> None:
        self._spent = spent

    def run(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        """Sleep for each trial."""
        for spec in group:
            with _clock(self._spent, "sleep"):
                time.sleep(TRIAL_SECONDS)
            made = record(0, windows=(0.005,) * 15)
            made.spec, made.outcome = spec, Outcome(OutcomeKind.OK, Phase.TEARDOWN)
            finished(made)


def _timed(function: Callable[..., Any], spent: dict[str, float], what: str) -> Callable[..., Any]:
    def timed(*arguments: Any) -> Any:
        with _clock(spent, what):
            return function(*arguments)

    return timed


@contextlib.contextmanager
def _clock(spent: dict[str, float], what: str) -> Iterator[None]:
    begun = time.monotonic()
    yield
    spent[what] += time.monotonic() - begun


def _peak_bytes(pid: int) -> int:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def main() -> None:
    """Both parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--conditions", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=32)
    chosen = parser.parse_args()
    sweep(chosen.conditions)
    workers(chosen.conditions, chosen.workers)


if __name__ == "__main__":
    main()
