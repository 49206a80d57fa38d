"""Prints what a plan costs on top of the bare compilation (goal: at most 10 % + 0.3 s), and that a second run has none.

    python tests/benchmarks/plan_overhead.py [CHIP] [WORKLOAD] [SIZE]

The bare cost is tracing, lowering and the compiler's own call, as the records have them. The rest of a trial is the
harness: starting processes, importing, opening the target, reading the plan, ending. The first trial of a framework
also starts its zygote, once a study; it is listed, not counted.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd

#: Several plans a framework, so that all but the first have a zygote waiting.
BATCHES = (8, 16, 32, 64)


def main(chip: str = "v5e", workload: str = "mlp", size: str = "default") -> None:
    """Run the same study twice with a plan cache of its own, and print a line a trial."""
    with tempfile.TemporaryDirectory() as folder:
        first, second = (run(Path(folder), name, chip, workload, size) for name in ("first", "second"))
    bare = first["trace_seconds"] + first["lower_seconds"] + first["plan_compile_seconds"]
    harness = first["elapsed_seconds"] - bare
    starts_zygote = first.groupby("framework", sort=False).cumcount() == 0
    for row, bare_seconds, more, starting in zip(first.itertuples(), bare, harness, starts_zygote, strict=True):
        goal = 0.1 * bare_seconds + 0.3
        verdict = "starts the zygote" if starting else "within the goal" if more <= goal else "MISSED"
        print(
            f"{row.framework:4} batch {row.batch_size:4}: bare {bare_seconds:6.2f} s, harness {more:5.2f} s ({verdict})"
        )
    counted = harness[~starts_zygote]
    print(
        f"harness, median over {len(counted)} plans: {counted.median():.2f} s; goal {(0.1 * bare + 0.3).median():.2f} s"
    )
    compiled = int((second["plan_cached"] != True).sum())  # noqa: E712 - missing is not cached
    print(f"second run: {compiled} of {len(second)} plans compiled, {second['elapsed_seconds'].median():.2f} s each")


def run(folder: Path, name: str, chip: str, workload: str, size: str) -> pd.DataFrame:
    """The trials of one study, in the order they ran in."""
    command = [sys.executable, "-P", "-m", "study", "-m", "framework=jax,tf", "device=tpu", f"chip={chip}"]
    command += [f"workload={workload}", f"workload.size={size}", f"workload.batch_size={','.join(map(str, BATCHES))}"]
    environment = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache")}
    subprocess.run([*command, f"study.name={name}"], cwd=folder, env=environment, check=True, stdout=subprocess.DEVNULL)
    return pd.read_csv(folder / "outputs" / name / "trials.csv").sort_values("order")


if __name__ == "__main__":
    main(*sys.argv[1:])
