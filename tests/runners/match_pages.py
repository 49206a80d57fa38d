"""Prints, for pages at tiny size, a framework's first losses and much else: `match_pages.py jax|tf FOLDER [PAGE …]`.

Each variant of a page is one entry: compilation, page, mode or tracing, dtype, donation. For training steps with an
optimiser the first gradient, read from the optimiser's state, is compared with finite differences of the float64
reference. The lowered module of every float32 step that donates goes into FOLDER, for `count_lowered.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from runners import contract, frameworks, workloads
from runners.compiled.trial import _shapes
from runners.frameworks.base import FrameworkRunner
from runners.specs import TrialSpec, WorkloadSpec
from runners.trial import reference_losses
from runners.workloads.page import Problem, abstract, generator, in_float64, input_hash
from tests.runners.harness import make_spec, workload

STEPS = 10
#: Every kernel in each dtype, both ways of donating; the other pages cost seconds to compile, so fewer of them.
KERNELS = (("float32", True), ("float32", False), ("bfloat16", True), ("float16", False))
#: mode, dtype, donation → compilations. The cheapest one tries the layers in more ways.
MODELS = {
    ("train", "float32", True): ("jit", "xla", "graph"),
    ("train", "bfloat16", False): ("graph",),
    ("infer", "float32", True): ("graph",),
    ("infer", "bfloat16", False): ("jit",),
}
ATTENTION = {
    ("train", "float32", True): ("jit", "xla", "graph"),
    ("train", "bfloat16", False): ("jit", "graph"),
    ("infer", "float32", True): ("jit", "xla"),
    ("infer", "float16", False): ("jit", "graph"),
}
KERAS = {("train", "float32", True): ("jit", "graph"), ("infer", "float32", True): ("xla",)}
BY_PAGE = {"attention": ATTENTION, "keras": KERAS}
TRACING = {
    "jit": ("each_shape",),
    "xla": ("signature",),
    "graph": ("each_shape", "reduce_retracing", "signature"),
}


def variants(name: str, compile: str) -> Iterator[WorkloadSpec]:
    """The variants of a page that are tried."""
    spec = workload(name)
    if name == "keras":
        spec = replace(spec, model="MobileNetV2")  # quick to compile, and has no dropout
    if spec.tracing:
        yield from (replace(spec, tracing=tracing) for tracing in TRACING[compile])
    elif spec.mode:
        for (mode, dtype, donate), compilations in BY_PAGE.get(name, MODELS).items():
            if compile in compilations:
                yield replace(spec, mode=mode, dtype=dtype, donate=donate)
    else:
        offered = workloads.load(spec).SUPPORTED_DTYPES
        yield from (replace(spec, dtype=dtype, donate=donate) for dtype, donate in KERNELS if dtype in offered)


def measured(runner: FrameworkRunner, spec: TrialSpec) -> dict[str, Any]:
    """The losses of one variant, and all that a page promises besides."""
    page, asked = workloads.load(spec.workload), spec.workload
    described = contract.problem_of(page, asked, spec.seed)
    problem, donate = described.made(), asked.donate
    state = {name: runner.place(array, in_place=donate) for name, array in problem.state.items()}
    batch, *more = [
        {name: runner.place(array, in_place=False) for name, array in one.items()} for one in problem.batches
    ]
    step = workloads.step(page, asked, spec.framework, "cpu")
    extra = {"more_batches": more, "tracing": asked.tracing} if more else {}
    program = runner.compile(step, state, batch, donate=donate, **extra)
    losses, slope = [], None
    for index in range(max(STEPS, 2 * program.cycle)):
        state, loss = program.step(state)
        losses.append(float(loss))
        if index == 0 and asked.mode == "train" and asked.dtype == "float32":
            slope = slopes(page, asked, problem, state)
    return {
        "hash": input_hash(problem),
        "losses": losses,
        "reference": reference_losses(page, asked, problem, len(losses)),
        "slope": slope,
        "fence": runner.build_fence()(state, loss),
        "first_elements": sum(float(leaf[(0,) * len(leaf.shape)]) for leaf in state.values()) + float(loss),
        "traces": program.traces(),
        "declared_traces": page.traces(asked, spec.framework),
        "counted": page.counts(asked).matrix_flops,
        "work": program.work and [program.work.needed, program.work.constant, program.work.ignored],
        "abstract": abstract(described.state) == abstract(problem.state),
    }


def slopes(page: ModuleType, spec: WorkloadSpec, problem: Problem, state: dict[str, Any]) -> list[float] | None:
    """The loss's slope along a random direction: by the step's own gradient, and by differences of the reference."""
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
        losses += [loss for _, loss in page.reference(spec, Problem(moved, problem.batch))]
    return [float(own), (losses[0] - losses[1]) / (2 * width)] if losses else None


def keep_lowered(runner: FrameworkRunner, spec: TrialSpec, path: Path) -> None:
    """The step as it is handed to the compiler."""
    page = workloads.load(spec.workload)
    problem = page.inputs(spec.workload, spec.seed)
    step = workloads.step(page, spec.workload, spec.framework, "cpu")
    lowering = runner.lower(spec, step, _shapes(problem.state), _shapes(problem.batch))
    path.with_suffix(f".{lowering.form}").write_bytes(lowering.module)


def main(framework: str, folder: str, *names: str) -> None:
    """Every page, or the named ones."""
    results: dict[str, Any] = {}
    for compile in {"jax": ["jit"], "tf": ["xla", "graph"]}[framework]:
        runner = frameworks.load(framework)
        for name in names or workloads.names():
            if not workloads.load(workload(name)).COMPILED:
                continue
            for variant in variants(name, compile):
                spec = make_spec(framework, compile, workload=variant)
                runner.open_device(spec)
                kind = f"{name} {variant.mode or variant.tracing} {variant.dtype} {variant.donate}"
                results[f"{compile} {kind}"] = measured(runner, spec)
                plain = variant.dtype == "float32" and variant.mode != "infer" and variant.tracing is None
                if plain and compile != "graph" and name != "keras" and variant.donate == workload(name).donate:
                    keep_lowered(runner, spec, Path(folder, f"{compile} {name}"))
    held = [name for name in ("jax", "tensorflow") if sys.modules.get(name) is not None]
    print(json.dumps({"held": held, "pages": results}))


if __name__ == "__main__":
    main(*sys.argv[1:])
