"""How fast trials start from a zygote against a fresh interpreter, in one run; and what the harness itself costs.

    python -m tests.benchmarks.starts [--trials 30] [--row 200]

Prints, for each framework, the median time from the request to the first step being dispatched (compiling excluded);
the time the harness adds to a trial; the parent's share of a core while a trial measures; and how many of a row of
zygote trials ended ok.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from runners.records import OutcomeKind, Phase, TrialRecord
from runners.specs import TrialSpec
from study import processes
from study.journal import read_past
from study.starters import Starters
from study.supervise import Supervisor
from tests.study.samples import PROTOCOL, spec

FAKE = Path(__file__).parent.parent / "fake_framework"
QUICK = ["workload=elementwise", "workload.size=tiny", "protocol=smoke", "protocol.window_seconds=0.005"]


def study(folder: str, blocks: int, *arguments: str) -> list[TrialRecord]:
    """Run a study in `folder` and give its records in the order of their launch."""
    command = [sys.executable, "-m", "study", "-m", *QUICK, *arguments, f"study.blocks={blocks}", "study.name=starts"]
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=False)
    records = read_past(Path(folder, "outputs", "starts")).records.values()
    return sorted(records, key=lambda one: one.report.timings.phase_start_seconds[Phase.LAUNCH.value])


def ready_seconds(record: TrialRecord) -> float:
    """From the request to the start of compiling: after it nothing but compiling stands before the first step."""
    starts = record.report.timings.phase_start_seconds
    return starts[Phase.COMPILE.value] - starts[Phase.LAUNCH.value]


def starts(trials: int) -> None:
    """Zygote against fresh interpreter, paired in blocks of one study."""
    with tempfile.TemporaryDirectory() as folder:
        records = study(folder, trials, "framework=jax,tf", "protocol.start=zygote,spawn", "protocol.interleave=false")
    ok = [record for record in records if record.outcome.kind is OutcomeKind.OK]
    print(f"request → first step dispatched, compiling excluded; {len(ok)} of {4 * trials} trials ok")
    for framework, goal in (("jax", 0.25), ("tf", 0.35)):
        zygote, fresh = (
            [ready_seconds(one) for one in ok if (one.spec.framework.name, one.start) == (framework, start)]
            for start in ("zygote", "spawn")
        )
        low, high = statistics.median(zygote), statistics.median(fresh)
        worst = sorted(zygote)[int(0.9 * len(zygote))]
        print(
            f"  {framework}: zygote median {low:.3f} s (n = {len(zygote)}, 90 % below {worst:.3f} s, goal {goal} s), "
            f"fresh interpreter {high:.3f} s (n = {len(fresh)}), ratio {low / high:.3f}"
        )


def harness(trials: int) -> None:
    """What a trial costs beyond its own phases: launch, pipe, exit, leftovers, record and fsync; fake framework.

    The child's own work runs from its first phase (import) to its last word (done); the end of its process counts as
    the harness's. Told apart: until the child begins; until its process has ended and all is known for the record; and
    until the next trial is launched, with the record on disk.
    """
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(__file__).parent.parent / "conf"
        fake = [f"hydra.searchpath=[file://{conf}]", "framework=fake", "allocation=fake"]
        began = time.monotonic()
        records = study(folder, trials, *fake)
        wall = time.monotonic() - began
    launches = [record.report.timings.phase_start_seconds for record in records]
    ends = [
        one[Phase.LAUNCH.value] + (record.elapsed_seconds or 0.0) for one, record in zip(launches, records, strict=True)
    ]
    parts = [
        (one[Phase.IMPORT.value] - one[Phase.LAUNCH.value], end - one["done"], after[Phase.LAUNCH.value] - end)
        for (one, after), end in zip(itertools.pairwise(launches), ends[:-1], strict=True)
    ][1:]
    added = statistics.median(map(sum, parts)) * 1e3
    start, end, acknowledged = (statistics.median(part) * 1e3 for part in zip(*parts, strict=True))
    print(f"harness per trial (all but the child's own time): median {added:.1f} ms over {len(parts)}, goal 20 ms")
    print(
        f"  request to child {start:.1f}, last word to record {end:.1f}, record to next request {acknowledged:.1f} ms"
    )
    print(f"  the whole command, composing and analysis included: {wall:.1f} s for {len(records)} trials")


class Clock:
    """A watcher that reads the parent's CPU time when measuring begins and ends."""

    def __init__(self) -> None:
        self.marks: list[tuple[float, float]] = []

    def phase(self, _: TrialSpec, phase: Phase) -> None:
        if phase in (Phase.MEASURE, Phase.TEARDOWN):
            self.marks.append((time.monotonic(), time.process_time()))

    def tick(self) -> None: ...


def parent_cpu() -> None:
    """The parent's share of a core while one trial measures 50 windows of 120 ms and takes turns with nobody."""
    processes.become_subreaper()
    clock, records = Clock(), []
    trial = replace(spec(1), protocol=replace(PROTOCOL, windows=50, window_seconds=0.12))
    with tempfile.TemporaryDirectory() as folder, Starters(Path(folder)) as starters:
        Supervisor(starters, Path(folder), clock).run([trial], records.append)
    (began, cpu_before), (ended, cpu_after) = clock.marks
    share = (cpu_after - cpu_before) / (ended - began)
    print(f"parent's CPU while a trial measures: {share:.3%} of a core over {ended - began:.1f} s, goal 1 %")


def row(trials: int) -> None:
    """Zygote trials one after another; a hang would end as a timeout."""
    with tempfile.TemporaryDirectory() as folder:
        records = study(folder, trials // 2, "framework=jax,tf", "protocol.interleave=false")
    ok = sum(record.outcome.kind is OutcomeKind.OK and record.start == "zygote" for record in records)
    print(f"zygote trials in a row: {ok} of {2 * (trials // 2)} ok")


def main() -> None:
    """Print all four."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--row", type=int, default=200)
    chosen = parser.parse_args()
    os.environ["PYTHONPATH"] = str(FAKE)
    harness(max(chosen.trials, 30))
    parent_cpu()
    starts(chosen.trials)
    row(chosen.row)


if __name__ == "__main__":
    main()
