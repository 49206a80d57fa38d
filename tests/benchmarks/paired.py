"""Two questions about pairs, each answered by one study in which both answers take part, block by block.

    python -m tests.benchmarks.paired turns  [--blocks 20]   does taking turns make the pairs of a block alike?
    python -m tests.benchmarks.paired starts [--blocks 12]   does a zygote's trial measure what a fresh one does?

`turns` prints the paired standard deviation of log(T_jax / T_tf) with and without turns. `starts` prints, per
framework, the ratio of step times with its 95 % interval and the difference of host peak above baseline; the goal is
equivalence
within 2 %, and 1 MiB or 1 %.
"""

from __future__ import annotations

import argparse
import math
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from scipy import stats

from runners.records import OutcomeKind, TrialRecord
from study.journal import read_past
from study.stopping import log_ratio

MEBIBYTE = 2**20


def study(blocks: int, *arguments: str) -> list[TrialRecord]:
    """Run a study and give its records that ended ok."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "study", "-m", *arguments, f"study.blocks={blocks}", "study.report=false"]
        subprocess.run([*command, "study.name=paired"], cwd=folder, stdout=subprocess.DEVNULL, check=False)
        records = list(read_past(Path(folder, "outputs", "paired")).records.values())
    print(f"{sum(one.outcome.kind is OutcomeKind.OK for one in records)} of {len(records)} trials ok")
    return [one for one in records if one.outcome.kind is OutcomeKind.OK]


def differences(first: dict[int, TrialRecord], second: dict[int, TrialRecord]) -> list[float]:
    """log(T_first / T_second) of each common block: over neighbouring windows where turns were taken."""
    return [log_ratio(first[block], second[block]) for block in sorted(set(first) & set(second))]


def turns(blocks: int) -> None:
    """The paired standard deviation with and without turns, in one study, on one core and on all."""
    for cores in ("1", "null"):
        records = study(
            blocks, "framework=jax,tf", "workload=matmul", "protocol.interleave=true,false", f"device.cpus={cores}"
        )
        for interleave in (False, True):
            chosen = [one for one in records if one.spec.protocol.interleave is interleave]
            jax, tf = (
                {one.spec.block: one for one in chosen if one.spec.framework.name == name} for name in ("jax", "tf")
            )
            d = differences(jax, tf)
            print(
                f"  cores {cores}, turns {interleave}: paired sd {statistics.stdev(d):.2%} over {len(d)} blocks, "
                f"ratio {math.exp(statistics.mean(d)):.4f}"
            )


def starts(blocks: int) -> None:
    """Zygote against fresh interpreter, taking turns with each other."""
    arguments = ["framework=jax,tf", "protocol.start=zygote,spawn", "study.primary=protocol.start"]
    records = study(blocks, *arguments, "device.cpus=1")
    for name in ("jax", "tf"):
        own = [one for one in records if one.spec.framework.name == name]
        zygote, spawn = ({one.spec.block: one for one in own if one.start == start} for start in ("zygote", "spawn"))
        d = differences(zygote, spawn)
        low, high = stats.t.interval(0.95, len(d) - 1, statistics.mean(d), stats.sem(d))
        inner = stats.t.interval(0.90, len(d) - 1, statistics.mean(d), stats.sem(d))
        equal = -math.log(1.02) < inner[0] and inner[1] < math.log(1.02)
        print(
            f"  {name}: zygote takes {math.exp(statistics.mean(d)):.4f} × the time of spawn "
            f"(95 % {math.exp(low):.4f}–{math.exp(high):.4f}, {len(d)} blocks; within 2 %: {equal})"
        )
        peaks = [statistics.median(map(above_baseline, side.values())) / MEBIBYTE for side in (zygote, spawn)]
        print(f"      host peak above baseline: zygote {peaks[0]:.2f} MiB, spawn {peaks[1]:.2f} MiB", end="")
        print(f", difference {peaks[0] - peaks[1]:+.2f} MiB ({peaks[0] / peaks[1] - 1:+.2%})")


def above_baseline(record: TrialRecord) -> int:
    """Host peak less baseline, in bytes."""
    memory = record.report.memory
    return (memory["host_peak"].value or 0) - (memory["host_baseline"].value or 0)


def main() -> None:
    """Answer one of the questions."""
    parser = argparse.ArgumentParser()
    parser.add_argument("question", choices=["turns", "starts"])
    parser.add_argument("--blocks", type=int, default=12)
    chosen = parser.parse_args()
    {"turns": turns, "starts": starts}[chosen.question](chosen.blocks)


if __name__ == "__main__":
    main()
