"""An elementwise update, x ← a·x + b·y: bound by memory.

state  x  (rows, width)   rows = batch size
batch  y  (rows, width)
loss   mean over rows of the mean over columns of x_new²   (float32)

a + b = 1 makes it a contraction towards y, so x stays between its start and y for any number of steps; a and b are sums
of powers of two, exact in every dtype. The mean is taken in two stages, so that no float32 sum runs over millions of
terms. Idioms: plain operators, as in STREAM's triad (McCalpin 1995); fusing them is left to the compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.page import (
    Arrays,
    Drawn,
    Problem,
    WorkCounts,
    describe,
    in_float64,
    item_bytes,
    normal,
    numpy_dtype,
)

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

A, B = 0.875, 0.125


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x standard normal; y uniform in [1, 2), so that the loss moves from 1 towards 7/3."""
    shape, dtype = (workload.batch_size, workload.shape["width"]), workload.dtype
    y = Drawn(shape, numpy_dtype(dtype), lambda random, shape: random.random(shape, dtype=np.float32) + np.float32(1))
    return describe(seed, {"x": normal(shape, dtype)}, {"y": y})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    x, y = in_float64(problem.state)["x"], in_float64(problem.batch)["y"]
    while True:
        x = A * x + B * y
        yield {"x": x}, float(np.mean(x**2))


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 5 an element (two products and a sum; square and add of the loss). bytes: x and y read, x written."""
    elements = workload.batch_size * workload.shape["width"]
    return WorkCounts(
        parameters=0,
        flops=5 * elements,
        bytes=3 * elements * item_bytes(workload.dtype),
        examples=workload.batch_size,
        matrix_flops=0,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        x = A * state["x"] + B * batch["y"]
        return {"x": x}, jnp.mean(jnp.mean(jnp.square(x.astype(jnp.float32)), axis=1))

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        x = A * state["x"] + B * batch["y"]
        return {"x": x}, tf.reduce_mean(tf.reduce_mean(tf.square(tf.cast(x, tf.float32)), axis=1))

    return step
