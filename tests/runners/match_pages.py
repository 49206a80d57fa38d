"""Prints, for every page at tiny size, a framework's first ten losses and the reference's: `match_pages.py jax|tf`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from runners import frameworks, workloads
from runners.frameworks.base import FrameworkRunner
from runners.records import TrialSpec
from runners.trial import reference_losses
from runners.workloads.page import input_hash
from tests.runners.harness import make_spec, workload

STEPS = 10


def losses(runner: FrameworkRunner, spec: TrialSpec) -> dict[str, Any]:
    page = workloads.load(spec.workload.name)
    problem = page.inputs(spec.workload, spec.seed)
    result = {"hash": input_hash(problem), "reference": reference_losses(page, problem, STEPS), "losses": []}
    state = {name: runner.place(array, in_place=spec.workload.donate) for name, array in problem.state.items()}
    batch = {name: runner.place(array, in_place=False) for name, array in problem.batch.items()}
    program = runner.compile(getattr(page, f"{runner.name}_step")(), state, batch, donate=spec.workload.donate)
    for _ in range(STEPS):
        state, loss = program.step(state)
        result["losses"].append(float(loss))
    result["fence"], result["traces"] = runner.build_fence()(state, loss), program.traces()
    result["first_elements"] = sum(float(leaf[(0,) * len(leaf.shape)]) for leaf in state.values()) + float(loss)
    return result


def main(framework: str) -> None:
    results = {}
    for compile in {"jax": ["jit"], "tf": ["xla", "graph"]}[framework]:
        runner = frameworks.load(framework)
        for name in workloads.names():
            for dtype, donate in (("float32", True), ("float32", False), ("bfloat16", True), ("float16", False)):
                spec = make_spec(framework, compile, workload=replace(workload(name), dtype=dtype, donate=donate))
                runner.open_device(spec)
                results[f"{compile} {name} {dtype} {donate}"] = losses(runner, spec)
    print(json.dumps(results))


if __name__ == "__main__":
    main(sys.argv[1])
