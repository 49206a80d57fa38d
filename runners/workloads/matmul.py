"""A chain of dense products, x ← x·w: bound by arithmetic.

state  x        (rows, size)   rows = batch size
batch  w        (size, size)   orthogonal
       weights  (size,)        float32, positive, sum 1
loss   mean over rows of Σ_j weights_j · x_new_j²   (float32)

w is a random signed permutation of blocks of Hadamard matrices scaled by 2^-k: its entries are ±2^-k (and 0 where size
is no power of 4), so it is exactly orthogonal in every dtype, and x keeps its length for any number of steps. The sum
of squares of x would be the same at every step; the weights are concentrated on the first columns, so the loss moves by
percents from step to step while all its terms are positive and well conditioned. Idioms: `@` in both; the compiler
picks the kernel.
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


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x standard normal; w and the weights as above."""
    size, dtype = workload.shape["size"], workload.dtype
    batch = {
        "w": Drawn((size, size), numpy_dtype(dtype), lambda random, _: _orthogonal(size, random)),
        "weights": Drawn((size,), numpy_dtype("float32"), lambda *_: _weights(size)),
    }
    return describe(seed, {"x": normal((workload.batch_size, size), dtype)}, batch)


def _weights(size: int) -> np.ndarray:
    weights = 1.0 / np.arange(1, size + 1, dtype=np.float64) ** 2
    return (weights / weights.sum()).astype(np.float32)


def _orthogonal(size: int, random: np.random.Generator) -> np.ndarray:
    """Blocks of the largest Hadamard matrix of order 4^k dividing size, rows permuted and columns signed at random."""
    root = np.array([[1, 1], [1, -1]], np.float32)
    block: np.ndarray = np.ones((1, 1), np.float32)
    while size % (4 * len(block)) == 0:
        block = np.kron(np.kron(root, root), block) / 2
    matrix = np.kron(np.eye(size // len(block), dtype=np.float32), block).astype(np.float32)
    signs = random.choice(np.array([-1, 1], np.float32), size)
    return matrix[random.permutation(size)] * signs


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    x, batch = in_float64(problem.state)["x"], in_float64(problem.batch)
    w, weights = batch["w"], batch["weights"]
    while True:
        x = x @ w
        yield {"x": x}, float(np.mean(x**2 @ weights))


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 2·rows·size² of the product, 3·rows·size of the loss (square, weight, add).

    bytes: x and w read, x written, in the state's dtype; the weights in float32.
    """
    rows, size, item = workload.batch_size, workload.shape["size"], item_bytes(workload.dtype)
    return WorkCounts(
        parameters=0,
        flops=2 * rows * size * size + 3 * rows * size,
        bytes=(2 * rows * size + size * size) * item + 4 * size,
        examples=rows,
        matrix_flops=2 * rows * size * size,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        x = state["x"] @ batch["w"]
        squares = jnp.square(x.astype(jnp.float32))
        return {"x": x}, jnp.mean(jnp.sum(squares * batch["weights"], axis=1))

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        x = state["x"] @ batch["w"]
        squares = tf.square(tf.cast(x, tf.float32))
        return {"x": x}, tf.reduce_mean(tf.reduce_sum(squares * batch["weights"], axis=1))

    return step
