"""What the harness itself can do: 10,000 conditions, and 32 workers whose trials take 5 ms of sleep.

    python -m tests.benchmarks.ceiling [--conditions 10000] [--workers 32] [--launcher joblib]

First a real sweep on this machine, bounded in time: seconds until its first trial, trials per second, the parent's
peak memory. Then the same sweep by a head with workers, through Hydra and one of its launchers as a user has them; each
worker stands for a node of its own (so none waits for the others' processors), and its supervisor only sleeps. What is
left is the harness: trials per second, and where the time goes, in ms a trial. Needs hydra-joblib-launcher.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import hydra
import psutil

from runners.records import OutcomeKind, Phase
from study import batches, compose, dispatch, schema, session, sweeper
from study.__main__ import conf_folder
from study.journal import read_past
from study.request import REQUEST
from tests.benchmarks.ceiling_work import CLOCKS, TRIAL_SECONDS, Spent, clocked, job

TESTS = Path(__file__).parent.parent
SWEEP_SECONDS = 20
#: Where the head spends its time: a label → what is called there.
STAGES: dict[str, list[tuple[Any, str]]] = {
    "Hydra: overrides composed": [(compose.Composer, "settings")],
    "conditions checked, design": [(sweeper, "condition_from"), (sweeper, "plan")],
    "manifest, session line": [(session, "open_session")],
    "batches cut, pickled": [(batches, "cut"), (batches, "only"), (batches, "save")],
}


def sweep(conditions: int) -> None:
    """A real sweep of real trial processes, stopped after a while."""
    with tempfile.TemporaryDirectory() as name:
        command = [sys.executable, "-m", "study", "-m", *_asked(conditions), f"study.max_seconds={SWEEP_SECONDS}"]
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


def workers(conditions: int, count: int, launcher: str) -> None:
    """The head and its workers in real processes and with real files; only the trials are not."""
    asked = [*_asked(conditions), "study.pairing=none", f"study.trials_per_job={-(-conditions // count)}"]
    jobs = {"joblib": [f"hydra.launcher.n_jobs={count}"]}.get(launcher, [])
    spent: Spent = {}
    with tempfile.TemporaryDirectory() as name, contextlib.chdir(name), _watched(spent):
        begun = time.monotonic()
        _command([*asked, f"hydra/launcher={launcher}", *jobs])
        whole, folder = time.monotonic() - begun, Path("outputs", "ceiling")
        clocks = [json.loads(one.read_text()) for one in folder.glob(f"{CLOCKS}/*.json")]
        ok = sum(one.outcome.kind is OutcomeKind.OK for one in read_past(folder).records.values())
    starts, end = [one["start"] for one in clocks], max(one["end"] for one in clocks)
    print(f"{len(clocks)} workers by {launcher}, trials of {1000 * TRIAL_SECONDS:g} ms: ", end="")
    print(f"{ok / (end - min(starts)):.0f} trials/s; {ok:,} of {conditions:,} ok, {whole:.0f} s in all")
    stages = {
        "Hydra: until our sweeper": spent["sweep begins"] - begun,
        **{label: spent.get(label, 0.0) for label in STAGES},
        "launcher: to the first worker": min(starts) - spent["saved"],
        "launcher: to the last worker": max(starts) - min(starts),
        "launcher: collecting": spent["concluded"] - end,
    }
    _say("the head, once for all trials", stages, ok)
    inside = {what: sum(one[what] for one in clocks) for what in ("sleep", "fsync", "lease", "cpu")}
    everything = sum(one["end"] - one["start"] for one in clocks)
    other = everything - sum(inside.values())
    _say("a worker", {**inside, "waiting for a core": max(0.0, other), "everything": everything}, ok)
    print(f"  head's peak memory {_peak_bytes(os.getpid()) / 2**20:.0f} MiB (goal: 500)")


@contextlib.contextmanager
def _watched(spent: Spent) -> Iterator[None]:
    """The head's clocks: how long each stage takes, and when what lies between them begins."""
    with contextlib.ExitStack() as stack:
        for label, functions in STAGES.items():
            for holder, name in functions:
                stack.enter_context(clocked(holder, name, spent, label))
        for holder, name, what in ((dispatch.batches, "save", "saved"), (session, "conclude", "concluded")):
            stack.enter_context(_marked(holder, name, spent, what))
        stack.enter_context(_marked(sweeper.StudySweeper, "sweep", spent, "sweep begins"))
        yield


@contextlib.contextmanager
def _marked(holder: Any, name: str, spent: Spent, what: str) -> Iterator[None]:
    """When a function was last called."""
    function = getattr(holder, name)

    def marked(*arguments: Any, **named: Any) -> Any:
        spent[what] = time.monotonic()
        return function(*arguments, **named)

    with mock.patch.object(holder, name, marked):
        yield


def _command(overrides: list[str]) -> None:
    """As `python -m study` does it, with our own function for the launcher to call."""
    schema.register()
    sweeper.register()
    REQUEST.multirun = True
    quiet = contextlib.redirect_stdout(io.StringIO())
    with mock.patch.object(sys, "argv", [sys.argv[0], *overrides, "--multirun"]), quiet:
        hydra.main(version_base="1.3", config_path=str(conf_folder().resolve()), config_name="config")(job)()
    if REQUEST.error is not None:
        raise REQUEST.error


def _asked(conditions: int) -> list[str]:
    return [
        f"hydra.searchpath=[file://{TESTS / 'conf'}]", "framework=fake", "allocation=fake", "workload=elementwise",
        "workload.size=tiny", "protocol=smoke", "protocol.windows=1", "protocol.window_seconds=0.001",
        "protocol.warmup_steps=1", "protocol.warmup_seconds=0.001", "protocol.interleave=false",
        f"workload.batch_size=range(1,{conditions + 1})", "study.blocks=1", "study.name=ceiling", "study.report=false",
    ]  # fmt: skip


def _say(heading: str, seconds: Spent, trials: int) -> None:
    print(f"  {heading}:")
    for what, spent in seconds.items():
        print(f"    {what:<30} {spent:7.2f} s {1000 * spent / trials:8.3f} ms a trial")


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
    parser.add_argument("--launcher", default="joblib", choices=["joblib", "submitit_local"])
    chosen = parser.parse_args()
    sweep(chosen.conditions)
    workers(chosen.conditions, chosen.workers, chosen.launcher)


if __name__ == "__main__":
    main()
