"""Prints how far a CPU compiler's plan is from the measured memory, workload by workload (goal: median ≤ 2 %).

    python tests/benchmarks/plan_against_measured.py [WORKLOAD ...] [--size default]

Both frameworks run with allocation=platform, where every buffer is one call to malloc: the peak of one step above the
steady baseline, which holds the batch already, against the plan without the batch. Only plans above 64 MiB are
compared. JAX's plan is the study's. TensorFlow runs what its own XLA has compiled, so that one's plan is compared
(plan_by_tensorflow.py); the study's plan of the same step, by the XLA in jaxlib, is another version's and may fuse
differently: printed, not counted.

TensorFlow's `device_live_peak` is printed too, from allocation=default. It is no measure of a plan: it counts what the
pool hands out, and a pool hands a free chunk out whole where less than as much again (and less than 128 MiB) would be
left of it, so that a buffer of 33 MiB may count as 64; buffers below 256 KiB, which go past the pool, count as nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import yaml

from runners import workloads
from runners.specs import WorkloadSpec
from runners.workloads.page import total_bytes

ROOT = Path(__file__).parents[2]
MIB = 2**20
LEAST_BYTES = 64 * MIB


def main() -> None:
    """Run the study, then print a line a condition and the median."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=["elementwise", "mlp", "matmul"])
    parser.add_argument("--size", default="default")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trials = study(Path(folder), asked.workloads, asked.size)
    errors = []
    for key, group in trials.groupby(["workload", "framework"], sort=False):
        line, error = compared(group, asked.size)
        errors += [] if error is None else [error]
        print(f"{key[0]:18} {key[1]:4} {line}", flush=True)
    if errors:
        print(f"median relative error {statistics.median(map(abs, errors)):.2%} over {len(errors)} plans above 64 MiB")


def study(folder: Path, names: list[str], size: str) -> pd.DataFrame:
    """The trials of jax and tf on this machine's CPU: measured in both modes, and compiled once."""
    common = [sys.executable, "-m", "study", "-m", "framework=jax,tf", f"workload={','.join(names)}"]
    common += [f"workload.size={size}", "protocol=smoke", "study.blocks=1"]
    for name, more in {
        "measured": ["evidence=measured", "allocation=platform,default"],
        "compiled": ["evidence=compiled"],
    }.items():
        subprocess.run([*common, *more, f"study.name={name}"], cwd=folder, check=False)
    tables = [pd.read_csv(folder / "outputs" / name / "trials.csv") for name in ("measured", "compiled")]
    return pd.concat(tables, ignore_index=True)


def compared(group: pd.DataFrame, size: str) -> tuple[str, float | None]:
    """The line of one workload and framework, and the relative error of the plan where it counts."""
    plan = group[group["evidence"] == "compiled"].iloc[0]
    modes = group[group["evidence"] == "measured"].set_index("allocation")
    exact, pooled = modes.loc["platform"], modes.loc["default"]
    found = exact["host_steady_peak_bytes"] - exact["host_steady_baseline_bytes"]
    if pd.isna(plan["planned_peak_bytes"]) or pd.isna(found):
        return f"no figure (compiled {plan['outcome']}, measured {exact['outcome']})", None
    batch, name = batch_bytes(plan["workload"], size), plan["workload"]
    study_error = (plan["planned_peak_bytes"] - batch) / found - 1
    whole = plan["planned_peak_bytes"] if plan["framework"] == "jax" else by_tensorflow(name, size)
    error = (whole - batch) / found - 1
    text = f"planned {(whole - batch) / MIB:9.2f} MiB, measured {found / MIB:9.2f} MiB, error {error:+.2%}"
    if plan["framework"] == "tf":
        live = pooled["device_live_peak_bytes"] / MIB
        text += (
            f" (by jaxlib's XLA {study_error:+.2%}; with the batch {whole / MIB:.2f}, the pool's live peak {live:.2f})"
        )
    return (text, error) if whole > LEAST_BYTES else (f"{text} (below 64 MiB)", None)


def by_tensorflow(name: str, size: str) -> int:
    """Bytes that TensorFlow's own compiler plans, batch included."""
    command = [sys.executable, "-P", str(Path(__file__).with_name("plan_by_tensorflow.py")), name, size]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    return int(done.stdout.splitlines()[-1])


def batch_bytes(name: str, size: str) -> int:
    """Bytes of the workload's batch."""
    level = yaml.safe_load((ROOT / "conf" / "workload" / f"{name}.yaml").read_text())
    shape = dict(level["sizes"][size])
    batch_size = shape.pop("batch_size")
    spec = WorkloadSpec(name, size, batch_size, level["dtype"], shape, mode=level.get("mode"))
    return total_bytes(workloads.load(spec).inputs(spec, 0).batch)


if __name__ == "__main__":
    main()
