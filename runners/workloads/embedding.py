"""An embedding table: rows gathered and averaged, their gradient scattered and added back into the table.

state  table (vocabulary, width)
batch  ids (rows, tokens) int32 in [0, vocabulary);  y (rows, width)
loss   half the mean of (mean over tokens of table[ids] − y)², before the update   (float32)

Only the rows that were gathered change: the gradient is taken of them and added to the table where they came from, as
sparse embedding updates do (jnp's .at[].add, tf.tensor_scatter_nd_add); a dense gradient of the whole table would be
another workload. A donated table is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.page import Arrays, Problem, WorkCounts, describe, in_float64, integers, item_bytes, normal

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

#: What a gathered row moves by, as a share of its average's error: small, since a row may be gathered many times.
RATE = 2.0**-4


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Table and y standard normal, ids uniform."""
    shape, rows = workload.shape, workload.batch_size
    return describe(
        seed,
        {"table": normal((shape["vocabulary"], shape["width"]), workload.dtype)},
        {
            "ids": integers((rows, shape["tokens"]), shape["vocabulary"]),
            "y": normal((rows, shape["width"]), workload.dtype),
        },
    )


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    table, batch = in_float64(problem.state)["table"], in_float64(problem.batch)
    while True:
        error = table[batch["ids"]].mean(axis=1) - batch["y"]
        table = table.copy()
        np.subtract.at(table, batch["ids"], RATE * error[:, None])
        yield {"table": table}, float(np.mean(error**2) / 2)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 4 a gathered element (sum and its gradient, rate, add), 4 an element of y (mean, error, square, add).

    bytes: the gathered rows read, and read and written again by the scatter; ids and y read.
    """
    rows, (tokens, width) = workload.batch_size, (workload.shape[key] for key in ("tokens", "width"))
    gathered = rows * tokens * width
    return WorkCounts(
        parameters=workload.shape["vocabulary"] * width,
        flops=4 * gathered + 4 * rows * width,
        bytes=(3 * gathered + rows * width) * item_bytes(workload.dtype) + 4 * rows * tokens,
        examples=rows,
        matrix_flops=0,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    # the gradient of the sum over width of ½·error², per row: error / tokens for each of its tokens
    rate = RATE * workload.shape["tokens"]

    def objective(gathered: Any, y: Any) -> tuple[Any, Any]:
        error = jnp.mean(gathered.astype(jnp.float32), axis=1) - y.astype(jnp.float32)
        squares = jnp.sum(jnp.square(error)) / 2
        return squares, squares / y.size

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        table, ids = state["table"], batch["ids"]
        gradient, loss = jax.grad(objective, has_aux=True)(table[ids], batch["y"])
        return {"table": table.at[ids].add(-rate * gradient)}, loss

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    rate = RATE * workload.shape["tokens"]

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        table, ids, y = state["table"], batch["ids"], batch["y"]
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            gathered = tf.gather(table, ids)
            tape.watch(gathered)
            error = tf.reduce_mean(tf.cast(gathered, tf.float32), axis=1) - tf.cast(y, tf.float32)
            squares = tf.reduce_sum(tf.square(error)) / 2
        gradient = tape.gradient(squares, gathered)
        table = tf.tensor_scatter_nd_add(table, ids[..., None], -rate * gradient)
        return {"table": table}, squares / y.shape.num_elements()

    return step
