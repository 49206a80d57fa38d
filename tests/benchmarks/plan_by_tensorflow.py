"""Prints the bytes that TensorFlow's own XLA plans for a workload's step on this CPU: the module that it really runs.

    python tests/benchmarks/plan_by_tensorflow.py WORKLOAD [SIZE]

The number is the sum of the step's arguments, results and temporaries, each byte once: what
NAME-buffer-assignment.txt lists, but for constants and what a thread has on its stack. A donated state is argument and
result in one. The step is the runner's, over variables, and runs once, for only a call compiles it.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
from pathlib import Path

import yaml

from runners.specs import AllocationSpec, DeviceSpec, FrameworkSpec, ProtocolSpec, TrialSpec, WorkloadSpec

ROOT = Path(__file__).parents[2]
ALLOCATION = re.compile(r"allocation \d+: size (\d+), (.*)")


def main(name: str, size: str = "default") -> None:
    """Compile the step with XLA's dump on, and add up its allocations."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XLA_FLAGS"] = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
        step_once(workload(name, size))
        texts = [path.read_text() for path in Path(folder).glob("*-buffer-assignment.txt")]
    print(max(planned_bytes(text) for text in texts))


def workload(name: str, size: str) -> WorkloadSpec:
    """The workload as conf/workload has it at that size."""
    level = yaml.safe_load((ROOT / "conf" / "workload" / f"{name}.yaml").read_text())
    shape = dict(level["sizes"][size])
    batch_size = shape.pop("batch_size")
    return WorkloadSpec(name, size, batch_size, level["dtype"], shape, mode=level.get("mode"))


def step_once(asked: WorkloadSpec) -> None:
    """One step of the workload, as a trial would build it."""
    from runners import frameworks, workloads
    from runners.workloads.page import made

    framework, device = FrameworkSpec("tf", "xla"), DeviceSpec("cpu")
    protocol = ProtocolSpec("none", 0, 0.0, 0, 0.0, 0, 0.0, 0, False)
    spec = TrialSpec("", "", 0, 0, 0, "measured", framework, device, AllocationSpec("default"), asked, protocol)
    runner, page = frameworks.load("tf"), workloads.load(asked)
    runner.open_device(spec)
    problem = page.inputs(asked, 0)
    state = {key: runner.place(made(value), in_place=True) for key, value in sorted(problem.state.items())}
    batch = {key: runner.place(made(value), in_place=False) for key, value in sorted(problem.batch.items())}
    step = workloads.step(page, asked, framework, "cpu")
    runner.synchronise(*runner.compile(step, state, batch, donate=True).step(state))


def planned_bytes(assignment: str) -> int:
    """Bytes of arguments, results and temporaries of one module's buffer assignment."""
    found = filter(None, map(ALLOCATION.match, assignment.splitlines()))
    return sum(int(one[1]) for one in found if "thread-local" not in one[2] and "constant" not in one[2])


if __name__ == "__main__":
    main(*sys.argv[1:])
