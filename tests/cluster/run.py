"""Real sweeps over real launchers on this machine, with workers and heads killed, against the same sweep run locally.

    python tests/cluster/run.py                   every launcher whose plug-in is installed here
    python tests/cluster/run.py submitit_slurm    a Slurm of one node, started and stopped by this script (as root)
    python tests/cluster/run.py ray               a Ray of this machine
    python tests/cluster/run.py joblib            two processes; needs nothing else

The framework is the fake one: a trial takes two seconds. Exit status 1 where anything differs from the local sweep.
"""

from __future__ import annotations

import contextlib
import csv
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from one_node_slurm import missing, one_node_slurm

from runners.lines import decode_line
from study import launchers
from study.journal import read_past

TESTS = Path(__file__).parent.parent
CONDITIONS, BLOCKS = 3, 4
TRIALS = CONDITIONS * BLOCKS
SWEEP = [
    "-m", f"hydra.searchpath=[file://{TESTS / 'conf'}]", "framework=fake", "allocation=fake", "workload=elementwise",
    "workload.size=tiny", "protocol=smoke", "workload.batch_size=8,16,24", f"study.blocks={BLOCKS}",
    "protocol.windows=20", "protocol.window_seconds=0.05", "protocol.interleave=false",
]  # fmt: skip
COMPARED = ("trial_id", "condition_id", "block", "order", "framework", "allocation", "batch_size", "outcome", "reason")
WAIT_SECONDS = 180.0


@dataclass
class Launcher:
    """How this launcher is asked for, what its commands need, and how one of its jobs is ended without mercy."""

    name: str
    arguments: list[str]
    variables: dict[str, str]
    kill: Callable[[Path], None]

    def start(self, folder: Path, *arguments: str) -> subprocess.Popen[str]:
        """The sweep in the study's folder `outputs/NAME` below `folder`."""
        command = [sys.executable, "-m", "study", *SWEEP, f"hydra/launcher={self.name}", *self.arguments, *arguments]
        variables = {**os.environ, **self.variables, "PYTHONPATH": str(TESTS / "fake_framework"), "COLUMNS": "160"}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=folder, env=variables, stdout=pipe, stderr=subprocess.STDOUT, text=True)

    def sweep(self, folder: Path, name: str, report: bool = False) -> tuple[int, str]:
        """The whole sweep, or what is missing of it: exit status and what it printed."""
        process = self.start(folder, f"study.name={name}", f"study.report={str(report).lower()}")
        text, _ = process.communicate(timeout=600)
        return process.returncode, text


def a_killed_job(launcher: Launcher, folder: Path) -> None:
    """One job is killed while its trial runs: a record says so after the sweep, and a resume runs what is missing."""
    process = launcher.start(folder, "study.name=killed", "study.report=false")
    study = folder / "outputs" / "killed"
    _until(lambda: len(read_past(study).records) >= 2 and _running(study), process)
    launcher.kill(study)
    text, _ = process.communicate(timeout=600)
    past = read_past(study)
    lost = [one for one in past.records.values() if one.outcome.reason == "worker lost"]
    _check(len(lost) == 1, f"one trial lost with its worker, found {len(lost)}", text)
    _check(process.returncode == 1, f"exit status 1 after a lost worker, found {process.returncode}", text)
    kept = {key for key, one in past.records.items() if one.outcome.kind == "ok"}
    status, text = launcher.sweep(folder, "killed", report=True)
    _check(status == 0, f"the resume ends with 0, found {status}", text)
    _check(kept <= set(_answered(study)), "every acknowledged trial is still there", text)
    _compare(folder, "killed", text)


def a_killed_head(launcher: Launcher, folder: Path) -> None:
    """The head is killed and started again while workers may still be at work."""
    process = launcher.start(folder, "study.name=head", "study.report=false")
    study = folder / "outputs" / "head"
    _until(lambda: len(read_past(study).records) >= 2 and _running(study), process)
    process.kill()
    process.communicate()
    kept = _answered(study)
    status, text = launcher.sweep(folder, "head", report=True)
    _check(status == 0, f"the second head ends with 0, found {status}", text)
    _check(not kept - _answered(study), "every acknowledged trial is still there", text)
    _compare(folder, "head", text)


def a_requeued_job(launcher: Launcher, folder: Path) -> None:
    """Slurm takes a running job back into its queue, as it does when a node is drained: it goes on where it was."""
    process = launcher.start(folder, "study.name=requeued", "study.report=true")
    study = folder / "outputs" / "requeued"
    _until(lambda: len(read_past(study).records) >= 1 and _running(study), process)
    _slurm(launcher, "scontrol", "requeue", _running_job(launcher))
    text, _ = process.communicate(timeout=600)
    _check(process.returncode == 0, f"the sweep ends with 0, found {process.returncode}", text)
    _compare(folder, "requeued", text)


def _compare(folder: Path, name: str, text: str) -> None:
    """Row for row with the local sweep, and no trial that was answered twice."""
    local, ours = (_rows(folder / "outputs" / one) for one in ("local", name))
    _check(len(local) == TRIALS, f"the local sweep has {TRIALS} rows, found {len(local)}", text)
    _check(ours == local, f"the rows of {name} are those of the local sweep", f"{text}\n{ours}\n{local}")
    answered = _answered(folder / "outputs" / name)
    _check(set(answered.values()) == {1}, f"no trial was answered twice, found {answered}", text)


def _rows(study: Path) -> list[tuple[str, ...]]:
    with (study / "trials.csv").open(newline="") as file:
        return [tuple(row[column] for column in COMPARED) for row in csv.DictReader(file)]


def _answered(study: Path) -> Counter[str]:
    """Trial id → number of ok records in all journals."""
    lines = [line for path in (study / "journal").glob("*.jsonl") for line in path.read_text().splitlines()]
    records = [body for line in lines if (body := decode_line(line))["kind"] == "trial"]
    return Counter(one["spec"]["trial_id"] for one in records if one["outcome"]["kind"] == "ok")


def _running(study: Path) -> list[int]:
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


def _until(ready: Callable[[], object], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not ready():
        if time.monotonic() > deadline or process.poll() is not None:
            process.kill()
            raise SystemExit(f"the sweep did not come so far:\n{process.communicate()[0]}")
        time.sleep(0.05)


def _check(fine: bool, what: str, text: str) -> None:
    if not fine:
        raise SystemExit(f"NOT SO: {what}\n{text}")
    print(f"    {what.partition(', found')[0]}", flush=True)


def _kill_worker(study: Path) -> None:
    os.kill(_running(study)[0], signal.SIGKILL)


def _slurm(launcher: Launcher, *command: str) -> str:
    return subprocess.check_output(command, env={**os.environ, **launcher.variables}, text=True)


def _running_job(launcher: Launcher) -> str:
    return _slurm(launcher, "squeue", "--noheader", "--array", "--states=RUNNING", "--format=%i").split()[0]


@contextlib.contextmanager
def _prepared(name: str) -> Iterator[Launcher]:
    if name == "submitit_slurm":
        with one_node_slurm() as variables:
            launcher = Launcher(name, [], variables, _kill_worker)
            launcher.kill = lambda _: (_slurm(launcher, "scancel", "--signal=KILL", _running_job(launcher)), None)[1]
            yield launcher
    elif name == "ray":
        arguments = ["+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.init.include_dashboard=false"]
        yield Launcher(name, arguments, {"RAY_raylet_start_wait_time_s": "200"}, _kill_worker)
    else:
        yield Launcher(name, ["hydra.launcher.n_jobs=2"] if name == "joblib" else [], {}, _kill_worker)


def _run(name: str, folder: Path) -> None:
    begun = time.monotonic()
    with _prepared(name) as launcher:
        print(f"{name}: ready after {time.monotonic() - begun:.0f} s", flush=True)
        scenarios = [a_killed_job, a_killed_head, *([a_requeued_job] if name == "submitit_slurm" else [])]
        for scenario in scenarios:
            before = time.monotonic()
            print(f"  {scenario.__name__.replace('_', ' ')}: {TRIALS} trials", flush=True)
            scenario(launcher, folder)
            print(f"    took {time.monotonic() - before:.0f} s", flush=True)


def main(names: list[str]) -> None:
    """Run the scenarios with each of these launchers."""
    known = [one for one in ("joblib", "submitit_slurm", "ray") if launchers.is_installed(one)]
    chosen = names or [one for one in known if one != "submitit_slurm" or not missing()]
    for name in chosen:
        with tempfile.TemporaryDirectory(prefix="study-cluster-") as made:
            folder, before = Path(made).resolve(), time.monotonic()
            status, text = Launcher("basic", [], {}, _kill_worker).sweep(folder, "local", report=True)
            _check(status == 0, f"the local sweep of {TRIALS} trials ends with 0, found {status}", text)
            print(f"    took {time.monotonic() - before:.0f} s", flush=True)
            _run(name, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
