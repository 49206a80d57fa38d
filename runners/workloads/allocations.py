"""`count` arrays that together hold `total_kib`, all replaced at every step: x_i ← a·x_i + b·y.

state  x000 … (total_kib · 1024 / count bytes each)
batch  y (1,)
loss   mean over arrays of the square of their first new element   (float32)

The same bytes in many small or few large pieces: workload=many_small,few_large, or any shape.count. Without donation
(this workload's default) a step takes `count` new blocks from the allocator and gives the old ones back. What the time
of a step grows by with `count` is the allocator's share and the framework's handling of that many arrays together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.page import (
    Arrays,
    Problem,
    WorkCounts,
    constant,
    describe,
    in_float64,
    item_bytes,
    normal,
    total_bytes,
)

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

A, B = 0.875, 0.125


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x standard normal, y = 2."""
    count, dtype = workload.shape["count"], workload.dtype
    elements = max(1, workload.shape["total_kib"] * 1024 // item_bytes(dtype) // count)
    state = {f"x{index:05}": normal((elements,), dtype) for index in range(count)}
    return describe(seed, state, {"y": constant((1,), dtype, 2.0)})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    state, y = in_float64(problem.state), in_float64(problem.batch)["y"]
    while True:
        state = {name: A * x + B * y for name, x in state.items()}
        yield state, float(np.mean([x[0] ** 2 for x in state.values()]))


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 2 an element. bytes: every array read and written."""
    problem = inputs(workload, 0)
    elements = total_bytes(problem.state) // item_bytes(workload.dtype)
    return WorkCounts(
        parameters=0,
        flops=2 * elements,
        bytes=2 * total_bytes(problem.state) + total_bytes(problem.batch),
        examples=workload.batch_size,
        matrix_flops=0,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        new = {name: A * x + B * batch["y"] for name, x in state.items()}
        firsts = jnp.stack([x[0] for x in new.values()]).astype(jnp.float32)
        return new, jnp.mean(jnp.square(firsts))

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        new = {name: A * x + B * batch["y"] for name, x in state.items()}
        firsts = tf.cast(tf.stack([x[0] for x in new.values()]), tf.float32)
        return new, tf.reduce_mean(tf.square(firsts))

    return step
