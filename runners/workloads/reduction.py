"""Means along both axes of a matrix: x ← a·x + b·(y − mean over columns − mean over rows). Bound by memory.

state  x (rows, width)   rows = batch size
batch  y (rows, width)
loss   mean over rows of the mean over columns of x_new²   (float32)

One reduction runs along memory, the other across it. The means are float32 sums whatever the dtype. The map is a
contraction, so x stays between its start and a fixed point. Idioms: jnp.mean and tf.reduce_mean, left to the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.page import Arrays, Problem, WorkCounts, describe, in_float64, item_bytes, normal

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

A, B = 0.875, 0.125


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x standard normal, y normal around 4."""
    shape, dtype = (workload.batch_size, workload.shape["width"]), workload.dtype
    return describe(seed, {"x": normal(shape, dtype)}, {"y": normal(shape, dtype, mean=4.0)})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    x, y = in_float64(problem.state)["x"], in_float64(problem.batch)["y"]
    while True:
        x = A * x + B * (y - x.mean(axis=1, keepdims=True) - x.mean(axis=0))
        yield {"x": x}, float(np.mean(x**2))


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 9 an element (two sums, two differences, two products and a sum; square and add of the loss)."""
    elements = workload.batch_size * workload.shape["width"]
    return WorkCounts(
        parameters=0,
        flops=9 * elements,
        bytes=3 * elements * item_bytes(workload.dtype),
        examples=workload.batch_size,
        matrix_flops=0,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        wide = state["x"].astype(jnp.float32)
        means = jnp.mean(wide, axis=1, keepdims=True) + jnp.mean(wide, axis=0)
        x = (A * wide + B * (batch["y"].astype(jnp.float32) - means)).astype(workload.dtype)
        return {"x": x}, jnp.mean(jnp.mean(jnp.square(x.astype(jnp.float32)), axis=1))

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        wide = tf.cast(state["x"], tf.float32)
        means = tf.reduce_mean(wide, axis=1, keepdims=True) + tf.reduce_mean(wide, axis=0)
        x = tf.cast(A * wide + B * (tf.cast(batch["y"], tf.float32) - means), workload.dtype)
        return {"x": x}, tf.reduce_mean(tf.reduce_mean(tf.square(tf.cast(x, tf.float32)), axis=1))

    return step
