"""A recurrence in a compiled loop: h ← tanh(h·w + x_t) over `steps` inputs, lax.scan against tf.while_loop.

state  h (rows, width);  number () int32, of the step
batch  x (steps, rows, width);  w (width, width)
loss   mean over rows of the mean over columns of h²   (float32)

w is normal, scaled so that the recurrence forgets its start; every step scales the inputs by 1 + number/8 (modulo 8),
so its result differs from the step before. Forward only. Idioms: lax.scan with the inputs as its xs; tf.while_loop with
a maximum of iterations, which XLA needs for a static trip count.
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
)

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """h zero, x normal with deviation ½, w normal with variance 1 / (4·width)."""
    rows, dtype = workload.batch_size, workload.dtype
    steps, width = workload.shape["steps"], workload.shape["width"]
    state = {"h": constant((rows, width), dtype), "number": constant((), "int32")}
    batch = {"x": normal((steps, rows, width), dtype, 0.5), "w": normal((width, width), dtype, 0.5 * width**-0.5)}
    return describe(seed, state, batch)


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    state, batch = in_float64(problem.state), in_float64(problem.batch)
    h, number = state["h"], int(state["number"])
    while True:
        for x in batch["x"]:
            h = np.tanh(h @ batch["w"] + x * (1 + number % 8 / 8))
        number += 1
        yield {"h": h, "number": np.asarray(number, np.int32)}, float(np.mean(h**2))


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 2·width² a row and input of the products, 3·width of scale, sum and tanh. bytes: x and w read, h twice."""
    rows, (steps, width) = workload.batch_size, (workload.shape[key] for key in ("steps", "width"))
    products = 2 * steps * rows * width**2
    return WorkCounts(
        parameters=0,
        flops=products + 3 * steps * rows * width,
        bytes=(steps * rows * width + width**2 + 2 * rows * width) * item_bytes(workload.dtype) + 8,
        examples=rows,
        matrix_flops=products,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        gain = (1 + (state["number"] % 8) / 8).astype(workload.dtype)

        def cell(h: Any, x: Any) -> tuple[Any, None]:
            return jnp.tanh(h @ batch["w"] + x * gain), None

        h, _ = jax.lax.scan(cell, state["h"], batch["x"])
        loss = jnp.mean(jnp.mean(jnp.square(h.astype(jnp.float32)), axis=1))
        return {"h": h, "number": state["number"] + 1}, loss

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    steps = workload.shape["steps"]

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        gain = tf.cast(1 + tf.cast(state["number"] % 8, tf.float32) / 8, workload.dtype)

        def cell(at: Any, h: Any) -> tuple[Any, Any]:
            return at + 1, tf.tanh(h @ batch["w"] + batch["x"][at] * gain)

        _, h = tf.while_loop(lambda at, _: at < steps, cell, [tf.constant(0), state["h"]], maximum_iterations=steps)
        loss = tf.reduce_mean(tf.reduce_mean(tf.square(tf.cast(h, tf.float32)), axis=1))
        return {"h": h, "number": state["number"] + 1}, loss

    return step
