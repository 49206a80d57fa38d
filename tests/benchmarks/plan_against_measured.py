"""Prints how far the CPU compiler's plan is from the measured memory, workload by workload (goal: median ≤ 2 %).

    python tests/benchmarks/plan_against_measured.py [WORKLOAD ...] [--size default]

JAX: peak above the steady baseline, which holds the batch already, against the plan without the batch. TensorFlow:
its allocator's peak of live bytes against the whole plan. Only plans above 64 MiB are compared.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import yaml

from runners import workloads
from runners.records import WorkloadSpec
from runners.workloads.page import total_bytes

ROOT = Path(__file__).parents[2]
LEAST_BYTES = 64 * 2**20


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
        print(f"{key[0]:18} {key[1]:4} {line}")
    if errors:
        print(f"median relative error {statistics.median(map(abs, errors)):.2%} over {len(errors)} plans above 64 MiB")


def study(folder: Path, names: list[str], size: str) -> pd.DataFrame:
    """The trials of jax and tf, measured and compiled, on this machine's CPU."""
    command = [sys.executable, "-m", "study", "-m", "framework=jax,tf", f"workload={','.join(names)}"]
    command += [f"workload.size={size}", "evidence=measured,compiled", "protocol=smoke", "study.blocks=1"]
    subprocess.run([*command, "study.name=plans"], cwd=folder, check=False, env=None)
    return pd.read_csv(folder / "outputs" / "plans" / "trials.csv")


def compared(group: pd.DataFrame, size: str) -> tuple[str, float | None]:
    """The line of one workload and framework, and the relative error of the plan where it counts."""
    plan = group[group["evidence"] == "compiled"].iloc[0]
    measured = group[group["evidence"] == "measured"].iloc[0]
    planned = plan["planned_peak_bytes"]
    if plan["framework"] == "jax":
        planned -= batch_bytes(plan["workload"], size)
        found = measured["host_steady_peak_bytes"] - measured["host_steady_baseline_bytes"]
    else:
        found = measured["device_live_peak_bytes"]
    if pd.isna(planned) or pd.isna(found):
        return f"no figure (compiled {plan['outcome']}, measured {measured['outcome']})", None
    error = planned / found - 1
    text = f"planned {planned / 2**20:9.2f} MiB, measured {found / 2**20:9.2f} MiB, error {error:+.2%}"
    return (text, error) if plan["planned_peak_bytes"] > LEAST_BYTES else (f"{text} (below 64 MiB)", None)


def batch_bytes(name: str, size: str) -> int:
    """Bytes of the workload's batch."""
    level = yaml.safe_load((ROOT / "conf" / "workload" / f"{name}.yaml").read_text())
    shape = dict(level["sizes"][size])
    batch_size = shape.pop("batch_size")
    spec = WorkloadSpec(name, size, batch_size, level["dtype"], shape, mode=level.get("mode"))
    return total_bytes(workloads.load(spec).inputs(spec, 0).batch)


if __name__ == "__main__":
    main()
