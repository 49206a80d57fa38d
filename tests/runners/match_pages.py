"""Prints, for pages at tiny size, a framework's first losses and the reference's: `match_pages.py jax|tf [PAGE …]`.

Each variant of a page is one entry: compilation, page, mode, dtype, donation. For training steps with an optimiser the
first gradient, read from the optimiser's state, is compared with finite differences of the float64 reference.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from runners import frameworks, workloads
from runners.frameworks.base import FrameworkRunner
from runners.records import TrialSpec, WorkloadSpec
from runners.trial import reference_losses
from runners.workloads.page import Problem, abstract, generator, in_float64, input_hash
from tests.runners.harness import make_spec, workload

STEPS = 10
#: Every kernel in each dtype, both ways of donating; models cost seconds to compile, so fewer of them.
KERNEL_VARIANTS = (("float32", True), ("float32", False), ("bfloat16", True), ("float16", False))
MODEL_VARIANTS = {
    ("train", "float32", True): ("jit", "xla", "graph"),
    ("train", "bfloat16", False): ("jit", "graph"),
    ("infer", "float32", True): ("jit", "xla"),
    ("infer", "float16", False): ("jit", "graph"),
}
#: Keras's layers are Keras's to test: one training and one inference step.
KERAS_VARIANTS = {("train", "float32", True): ("jit", "graph"), ("infer", "float32", False): ("jit", "xla")}


def variants(name: str, compile: str) -> Iterator[WorkloadSpec]:
    """The variants of a page that are tried."""
    spec = workload(name)
    if spec.mode is None:
        offered = workloads.load(spec).SUPPORTED_DTYPES
        yield from (replace(spec, dtype=dtype, donate=donate) for dtype, donate in KERNEL_VARIANTS if dtype in offered)
        return
    if name == "keras":
        spec = replace(spec, model="MobileNetV2")  # the quickest to compile
    for (mode, dtype, donate), compilations in (KERAS_VARIANTS if name == "keras" else MODEL_VARIANTS).items():
        if compile in compilations:
            yield replace(spec, mode=mode, dtype=dtype, donate=donate)


def measured(runner: FrameworkRunner, spec: TrialSpec) -> dict[str, Any]:
    """The losses of one variant, and all that a page promises besides."""
    began = time.monotonic()
    page = workloads.load(spec.workload)
    described = page.inputs(spec.workload, spec.seed)
    problem = described.made()
    result: dict[str, Any] = {"hash": input_hash(problem), "losses": [], "slope": None}
    result["reference"] = reference_losses(page, spec.workload, problem, STEPS)
    state = {name: runner.place(array, in_place=spec.workload.donate) for name, array in problem.state.items()}
    batch = {name: runner.place(array, in_place=False) for name, array in problem.batch.items()}
    step = workloads.step(page, spec.workload, spec.framework, "cpu")
    program = runner.compile(step, state, batch, donate=spec.workload.donate)
    for index in range(STEPS):
        state, loss = program.step(state)
        result["losses"].append(float(loss))
        if index == 0 and result["reference"]:
            result["slope"] = slopes(page, spec.workload, problem, state)
    result["fence"], result["traces"] = runner.build_fence()(state, loss), program.traces()
    result["first_elements"] = sum(float(leaf[(0,) * len(leaf.shape)]) for leaf in state.values()) + float(loss)
    counts = page.counts(spec.workload)
    result["counted"], result["needed"] = counts.matrix_flops, program.work.needed
    result["written"], result["constant"] = program.work.written, program.work.constant
    result["abstract"] = abstract(described.state) == abstract(problem.state)
    result["seconds"] = time.monotonic() - began
    return result


def slopes(page: ModuleType, spec: WorkloadSpec, problem: Problem, state: dict[str, Any]) -> list[float] | None:
    """The loss's slope along a random direction: by the step's own gradient, and by differences of the reference."""
    if spec.mode != "train" or spec.dtype != "float32":
        return None
    before, random, width = in_float64(problem.state), generator(1), 1e-7
    direction = {
        name: random.standard_normal(array.shape) * (np.abs(array).mean() + 0.01)
        for name, array in before.items()
        if name.startswith("p/")
    }
    share = page.OPTIMISER.gradient_share()
    own = sum(np.sum(np.asarray(state[f"m/{name[2:]}"]) * moves) for name, moves in direction.items()) / share
    losses = []
    for sign in (1, -1):
        moved = {**before, **{name: before[name] + sign * width * moves for name, moves in direction.items()}}
        losses.append(next(page.reference(spec, Problem(moved, problem.batch)))[1])
    return [float(own), (losses[0] - losses[1]) / (2 * width)]


def main(framework: str, *names: str) -> None:
    """Every page, or the named ones."""
    results = {}
    for compile in {"jax": ["jit"], "tf": ["xla", "graph"]}[framework]:
        runner = frameworks.load(framework)
        for name in names or workloads.names():
            if not workloads.load(workload(name)).COMPILED:
                continue
            for variant in variants(name, compile):
                spec = make_spec(framework, compile, workload=variant)
                runner.open_device(spec)
                key = f"{compile} {name} {variant.mode} {variant.dtype} {variant.donate}"
                results[key] = measured(runner, spec)
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
