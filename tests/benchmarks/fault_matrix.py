"""Every fault at every phase, started both ways, and the study itself killed at every journal write, then resumed.

    python -m tests.benchmarks.fault_matrix [--injections 1000]

Prints injections, records lost, misclassified, survivors and the worst overshoot of a deadline. The goal is 0, 0, 0 and
at most 1 s. The trials run the fake framework (tests/fake_framework) in real processes with real signals.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from runners.records import OutcomeKind, TrialRecord
from runners.specs import AllocationSpec, FrameworkSpec, TrialSpec
from study import processes
from study.journal import read_past
from study.starters import Starters
from study.supervise import Supervisor
from tests.study.samples import PROTOCOL, spec

FAKE = Path(__file__).parent.parent / "fake_framework"
PHASES = ["import", "place", "probe", "compile", "first_step", "warmup", "calibrate", "measure", "teardown"]
DEADLINE_SECONDS = 0.25
HANGS = {"sleep", "stop", "deaf", "grandchild", "forks", "SIGSTOP"}
EXPECTED = {
    "raise": (OutcomeKind.CRASH, "RuntimeError"),
    "memory": (OutcomeKind.OOM, "host"),
    "exit0": (OutcomeKind.CRASH, "exit without result"),
    "exit3": (OutcomeKind.CRASH, "SystemExit"),
    "garbage": (OutcomeKind.CRASH, "unreadable event"),
    "escapee": (OutcomeKind.INVALID, "leftover processes"),
    **{name: (OutcomeKind.CRASH, name) for name in ("SIGSEGV", "SIGABRT", "SIGKILL", "SIGTERM", "SIGBUS", "SIGFPE")},
}


@dataclass
class Tally:
    """What came of the injections."""

    injections: int = 0
    lost: int = 0
    misclassified: list[str] = field(default_factory=list)
    survivors: int = 0
    worst_overshoot_seconds: float = 0.0
    kinds: Counter[str] = field(default_factory=Counter)


class Silent:
    """A watcher that tells nobody."""

    def phase(self, *_: object) -> None: ...

    def tick(self) -> None: ...


def faults(count: int) -> Iterator[tuple[str, str, str]]:
    """(phase, action, start) again and again; one in twenty by a fresh interpreter, since that takes longer."""
    cells = list(itertools.product(PHASES, [*EXPECTED, *sorted(HANGS)]))
    for number, (phase, action) in zip(range(count), itertools.cycle(cells), strict=False):
        yield phase, action, "spawn" if number % 20 == 19 else "zygote"


def injected(number: int, phase: str, action: str, start: str) -> TrialSpec:
    """A trial that strikes once."""
    # importing NumPy in a fresh interpreter takes a part of that phase's time
    seconds = 1.5 if (phase, start) == ("import", "spawn") else DEADLINE_SECONDS
    deadlines = {"total": 30.0} | ({phase: seconds} if action in HANGS else {})
    fault = f"{phase}:{action}"
    # a fresh interpreter reads the fault of its import from the environment: the module is not there to be told
    variables = {"FAKE_FAULT": fault} if (phase, start) == ("import", "spawn") else {}
    return spec(
        number,
        framework=FrameworkSpec("fake", fault),
        allocation=AllocationSpec("default", environment=variables),
        protocol=replace(PROTOCOL, interleave=number % 2 == 0, deadline_seconds=deadlines),
        settings={"framework": "fake", "compile": fault, "protocol.start": start},
    )


def run_trials(count: int) -> Tally:
    """Inject faults into single trials and into one of two that take turns."""
    tally = Tally()
    processes.become_subreaper()
    with tempfile.TemporaryDirectory() as folder, Starters(Path(folder)) as starters:
        supervisor = Supervisor(starters, Path(folder), Silent())
        for number, (phase, action, start) in enumerate(faults(count)):
            trial = injected(number, phase, action, start)
            healthy = injected(100_000 + number, "", "", "zygote")
            records: list[TrialRecord] = []
            supervisor.run([trial, healthy] if number % 10 == 0 else [trial], records.append)
            judge(tally, trial, action, records, 2 if number % 10 == 0 else 1)
            tally.survivors += survivors(starters.pids())
    return tally


def judge(tally: Tally, trial: TrialSpec, action: str, records: list[TrialRecord], wanted: int) -> None:
    """Count what is missing, wrong or late."""
    tally.injections += 1
    tally.lost += wanted - len(records)
    for record in records:
        outcome = record.outcome
        found = (outcome.kind, outcome.reason)
        if record.spec.trial_id != trial.trial_id:
            right = found == (OutcomeKind.OK, "")
        elif action in HANGS:
            right = outcome.kind is OutcomeKind.TIMEOUT
            phase = trial.framework.compile.partition(":")[0]
            began = record.report.timings.phase_start_seconds.get(phase)
            ended = record.report.timings.phase_start_seconds["launch"] + (record.elapsed_seconds or 0)
            if began is not None:
                late = ended - began - trial.protocol.deadline_seconds[phase]
                tally.worst_overshoot_seconds = max(tally.worst_overshoot_seconds, late)
        else:
            right = found == EXPECTED[action]
        tally.kinds[str(outcome.kind)] += 1
        if not right:
            tally.misclassified.append(f"{record.spec.framework.compile}: {found}")


def survivors(known: set[int]) -> int:
    """Descendants of ours that are no zygotes."""
    return sum(one.pid not in known for one in psutil.Process().children(recursive=True))


def interrupt_the_study(kills: int, **how: Callable[[int], int]) -> Tally:
    """Strike a whole study at its n-th journal write, for every n, then resume it; count what went missing.

    `how` names the strike: kill_after (SIGKILL after so many writes) or room_bytes (no file may grow further).
    """
    tally = Tally()
    for number in range(kills):
        with tempfile.TemporaryDirectory() as folder:
            run_study(folder, **{name: rule(number) for name, rule in how.items()})
            acknowledged = set(read_past(Path(folder, "outputs", "killed")).records)
            left = still_running(folder)
            run_study(folder)
            past = read_past(Path(folder, "outputs", "killed"))
            tally.injections += 1
            tally.lost += len(acknowledged - set(past.records)) + max(0, 6 - len(past.records))
            tally.survivors += len(left)
            tally.misclassified += [
                f"{record.spec.trial_id}: {record.outcome.kind}"
                for record in past.records.values()
                if record.outcome.kind is not OutcomeKind.OK
            ]
    return tally


def run_study(folder: str, kill_after: int | None = None, room_bytes: int | None = None) -> None:
    """A study of two conditions and three blocks on the fake framework, struck as told or not at all."""
    program = (
        "import os, signal, sys\n"
        "from study.__main__ import run\n"
        f"limit = {kill_after!r}\n"
        "if limit is not None:\n"
        "    from study.journal import Journal\n"
        "    write, count = Journal._write, [0]\n"
        "    def counted(self, line):\n"
        "        write(self, line)\n"
        "        if count[0] == limit: os.kill(os.getpid(), signal.SIGKILL)\n"
        "        count[0] += 1\n"
        "    Journal._write = counted\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    conf = Path(__file__).parent.parent / "conf"
    arguments = [
        "-m", f"hydra.searchpath=[file://{conf}]", "framework=fake", "allocation=fake", "workload=elementwise",
        "workload.size=tiny,default", "workload.shape.width=16", "workload.batch_size=8", "protocol=smoke",
        "study.blocks=3", "study.name=killed", "study.seed=3", "study.report=false",
    ]  # fmt: skip
    subprocess.run(
        [
            *([] if room_bytes is None else ["prlimit", f"--fsize={room_bytes}"]),
            sys.executable,
            "-c",
            program,
            *arguments,
        ],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(FAKE), "STUDY_FAULT_MATRIX": folder},
    )


def still_running(folder: str) -> list[int]:
    """Processes that a killed study left behind, a moment after its end."""
    time.sleep(0.3)
    mark = f"STUDY_FAULT_MATRIX={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
        except OSError:
            continue
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return found


def main() -> int:
    """Print both tables; exit status 1 where a goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--injections", type=int, default=1000)
    parser.add_argument("--kills", type=int, default=7)
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = str(FAKE)
    failed = False
    for name, tally in (
        ("faults in trials", run_trials(chosen.injections)),
        ("study killed at a journal write", interrupt_the_study(chosen.kills, kill_after=lambda number: number)),
        # a record of the fake framework is about 5 KB, the session's line about 4 KB
        ("disk full at a journal write", interrupt_the_study(chosen.kills, room_bytes=lambda n: 2_000 + 4_000 * n)),
    ):
        print(f"{name}: {tally.injections} injections, {tally.lost} records lost, {len(tally.misclassified)} ", end="")
        print(f"misclassified, {tally.survivors} survivors, worst overshoot {tally.worst_overshoot_seconds:.3f} s")
        print(f"  outcomes: {dict(tally.kinds)}")
        for line in tally.misclassified[:20]:
            print(f"  misclassified {line}")
        failed |= bool(tally.lost or tally.misclassified or tally.survivors) or tally.worst_overshoot_seconds > 1
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
