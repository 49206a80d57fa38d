"""Prints how far a window of the protocol is from a hand-written loop over the same compiled step.

Goal: within 0.5 %. Both take turns in one process, so that a busy machine disturbs both alike.

    JAX_PLATFORMS=cpu python -m tests.benchmarks.window_against_hand_loop [jax|tf]
"""

from __future__ import annotations

import statistics
import sys
import time

from runners import frameworks, workloads
from runners.stepper import Stepper
from tests.runners.harness import make_spec, workload

PAIRS, STEPS = 60, 40


def main(framework: str = "jax") -> None:
    spec = make_spec(framework, workload=workload("mlp", "default"))
    runner, page = frameworks.load(framework), workloads.load(spec.workload)
    runner.open_device(spec)
    problem = page.inputs(spec.workload, spec.seed).made()
    state = {name: runner.place(array, in_place=True) for name, array in problem.state.items()}
    batch = {name: runner.place(array, in_place=False) for name, array in problem.batch.items()}
    step = workloads.step(page, spec.workload, spec.framework, "cpu")
    program = runner.compile(step, state, batch, donate=True)
    stepper = Stepper(runner, program, state)
    for _ in range(STEPS):
        stepper.step()
    stepper.build_fence()
    ratios = []
    for _ in range(PAIRS):
        ours = stepper.window(STEPS).seconds
        state = stepper._state  # the loop goes on where the window ended, and the window where the loop ended
        began = time.perf_counter()
        for _ in range(STEPS):
            state, loss = program.step(state)
        float(loss)
        by_hand = time.perf_counter() - began
        stepper._state = state
        ratios.append(ours / by_hand)
    print(f"{framework}: median of window / hand-written loop = {statistics.median(ratios):.4f} over {PAIRS} pairs")
    print(f"the quartiles: {[round(q, 4) for q in statistics.quantiles(ratios, n=4)]}")


if __name__ == "__main__":
    main(*sys.argv[1:])
