"""A chain of dense products, x ← x·w: bound by arithmetic.

state  x        (rows, size)   rows = batch size
batch  w        (size, size)   orthogonal
       weights  (size,)        float32, positive, sum 1
loss   mean over rows of Σ_j weights_j · x_new_j²   (float32)

w is a random signed permutation of blocks of Hadamard matrices scaled by 2^-k: its entries are ±2^-k (and 0 where size
is no power of 4), so it is exactly orthogonal in every dtype, and x keeps its length for any number of steps. The sum
of squares of x would be the same at every step; the weights are concentrated on the first columns, so the loss moves by
percents from step to step while all its terms are positive and well conditioned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.records import WorkloadSpec
from runners.workloads.page import Arrays, Problem, WorkCounts, cast, generator, item_bytes

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x standard normal; w and the weights as above."""
    random, size = generator(seed), workload.shape["size"]
    x = random.standard_normal((workload.batch_size, size), dtype=np.float32)
    weights = 1.0 / np.arange(1, size + 1, dtype=np.float64) ** 2
    batch = {
        "w": cast(_orthogonal(size, random), workload.dtype),
        "weights": (weights / weights.sum()).astype(np.float32),
    }
    return Problem({"x": cast(x, workload.dtype)}, batch)


def _orthogonal(size: int, random: np.random.Generator) -> np.ndarray:
    """Blocks of the largest Hadamard matrix of order 4^k dividing size, rows permuted and columns signed at random."""
    root = np.array([[1, 1], [1, -1]], np.float32)
    block: np.ndarray = np.ones((1, 1), np.float32)
    while size % (4 * len(block)) == 0:
        block = np.kron(np.kron(root, root), block) / 2
    matrix = np.kron(np.eye(size // len(block), dtype=np.float32), block).astype(np.float32)
    signs = random.choice(np.array([-1, 1], np.float32), size)
    return matrix[random.permutation(size)] * signs


def reference(problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    x, w = problem.state["x"].astype(np.float64), problem.batch["w"].astype(np.float64)
    weights = problem.batch["weights"].astype(np.float64)
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
    )


def jax_step() -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        x = state["x"] @ batch["w"]
        squares = jnp.square(x.astype(jnp.float32))
        return {"x": x}, jnp.mean(jnp.sum(squares * batch["weights"], axis=1))

    return step


def tf_step() -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        x = state["x"] @ batch["w"]
        squares = tf.square(tf.cast(x, tf.float32))
        return {"x": x}, tf.reduce_mean(tf.reduce_sum(squares * batch["weights"], axis=1))

    return step
