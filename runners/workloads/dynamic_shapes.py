"""A small training step that meets a stated sequence of row counts: what new shapes cost.

shape  shapes: how many row counts; stride: from one to the next; width. The row counts are batch_size,
       batch_size + stride, …, in this order, and then round again
state  w (width, width)
batch  x, y (rows, width), another number of rows at every step of a round
loss   half the mean of (x·w − y)², before the update   (float32)

How often a step is traced is declared here, so a new trace is the result and no fault. JAX traces and compiles once for
every shape. tf.function does the same by default (workload.tracing=each_shape), twice with reduce_retracing=True (the
second time with the rows left open), once with a signature (workload.tracing=reduce_retracing, signature); with XLA
the one trace is still compiled for every shape. The record holds the traces, retrace_seconds (of every shape: its first
step less its second) and memory.retrace_caches. Idioms: jax.jit as it stands; what TensorFlow's guide to
tf.function says of retracing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import FrameworkSpec, WorkloadSpec
from runners.workloads.page import Arrays, Problem, WorkCounts, describe, in_float64, item_bytes, normal

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

RATE = 2.0**-3


def traces(workload: WorkloadSpec, framework: FrameworkSpec) -> int:
    """Once for every shape, unless TensorFlow is told otherwise."""
    told = {"reduce_retracing": min(2, workload.shape["shapes"]), "signature": 1}
    return told.get(workload.tracing or "", workload.shape["shapes"]) if framework.name == "tf" else _shapes(workload)


def _shapes(workload: WorkloadSpec) -> int:
    return workload.shape["shapes"]


def rows(workload: WorkloadSpec) -> list[int]:
    """The row counts of one round."""
    return [workload.batch_size + index * workload.shape["stride"] for index in range(_shapes(workload))]


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x and y standard normal, w normal of variance 1 / width."""
    width, dtype = workload.shape["width"], workload.dtype
    batches = [{"x": normal((count, width), dtype), "y": normal((count, width), dtype)} for count in rows(workload)]
    return describe(seed, {"w": normal((width, width), dtype, float(width**-0.5))}, *batches)


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64, round after round."""
    w = in_float64(problem.state)["w"]
    for batch in itertools.cycle([in_float64(batch) for batch in problem.batches]):
        error = batch["x"] @ w - batch["y"]
        w = w - RATE * batch["x"].T @ error / len(error)
        yield {"w": w}, float(np.mean(error**2) / 2)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """The mean of a round, rounded down. flops: the two products, 2·rows·width² each."""
    width, shapes, item = workload.shape["width"], _shapes(workload), item_bytes(workload.dtype)
    total = sum(rows(workload))
    flops = 4 * total * width**2 // shapes
    return WorkCounts(
        parameters=width**2,
        flops=flops,
        bytes=(2 * width**2 + 2 * total * width // shapes) * item,
        examples=total // shapes,
        matrix_flops=flops,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    def loss_of(w: Any, batch: dict[str, Any]) -> tuple[Any, Any]:
        squares = jnp.square((batch["x"] @ w - batch["y"]).astype(jnp.float32))
        return jnp.sum(squares) / 2 / squares.shape[0], jnp.mean(squares) / 2

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        gradient, loss = jax.grad(loss_of, has_aux=True)(state["w"], batch)
        return {"w": state["w"] - RATE * gradient}, loss

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow. The row count is read while the step runs: the trace may not know it."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(state["w"])
            squares = tf.square(tf.cast(batch["x"] @ state["w"] - batch["y"], tf.float32))
            objective = tf.reduce_sum(squares) / 2 / tf.cast(tf.shape(squares)[0], tf.float32)
        gradient = tape.gradient(objective, state["w"])
        return {"w": state["w"] - RATE * gradient}, tf.reduce_mean(squares) / 2

    return step
