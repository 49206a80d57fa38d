"""A convolution with both its gradients: x and w move so that conv(x, w) comes closer to y.

state  x (rows, image, image, channels), NHWC;  w (kernel, kernel, channels, channels)
batch  y (rows, image, image, channels)
loss   half the mean of (conv(x, w) − y)², before the update   (float32)

Three convolutions a step, stride 1, SAME padding: forward, gradient of x, gradient of w. Both move by gradient descent,
by RATE relative to how steep the loss can be, so the loss falls and nothing grows. The gradients are taken of the sum
over √positions, which keeps those of x and those of w inside float16's range. Idioms: lax.conv_general_dilated and
tf.nn.conv2d with channels last, gradients by the frameworks' own rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn.parameters import same_taps
from runners.workloads.page import Arrays, Problem, WorkCounts, describe, in_float64, normal, total_bytes

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

RATE = 2.0**-5


def _positions(workload: WorkloadSpec) -> int:
    return workload.batch_size * workload.shape["image"] ** 2


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x and y standard normal, w normal so that conv(x, w) has variance 1."""
    shape, dtype = workload.shape, workload.dtype
    size, channels, kernel = shape["image"], shape["channels"], shape["kernel"]
    images = (workload.batch_size, size, size, channels)
    w = normal((kernel, kernel, channels, channels), dtype, float((kernel**2 * channels) ** -0.5))
    return describe(seed, {"x": normal(images, dtype), "w": w}, {"y": normal(images, dtype)})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64, tap by tap."""
    state, y = in_float64(problem.state), in_float64(problem.batch)["y"]
    x, w, size = state["x"], state["w"], workload.shape["image"]
    low, high = (w.shape[0] - 1) // 2, w.shape[0] // 2
    taps = [(i, j) for i in range(w.shape[0]) for j in range(w.shape[1])]
    while True:
        padded = np.pad(x, ((0, 0), (low, high), (low, high), (0, 0)))
        shifted = {(i, j): padded[:, i : i + size, j : j + size] for i, j in taps}
        error = sum(shifted[tap] @ w[tap] for tap in taps) - y
        to_x, to_w = np.zeros_like(padded), np.zeros_like(w)
        for i, j in taps:
            to_x[:, i : i + size, j : j + size] += error @ w[i, j].T
            to_w[i, j] = np.einsum("nhwi,nhwo->io", shifted[i, j], error)
        x = x - RATE * to_x[:, low : low + size, low : low + size]
        w = w - RATE / _positions(workload) * to_w
        yield {"x": x, "w": w}, float(np.mean(error**2) / 2)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """FLOPs of the three convolutions, taps inside the image only. bytes: state read and written, y read."""
    taps = same_taps(workload.shape["image"], workload.shape["kernel"], 1) ** 2
    flops = 3 * 2 * workload.batch_size * taps * workload.shape["channels"] ** 2
    problem = inputs(workload, 0)
    return WorkCounts(
        parameters=0,
        flops=flops,
        bytes=2 * total_bytes(problem.state) + total_bytes(problem.batch),
        examples=workload.batch_size,
        matrix_flops=flops,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    root = float(_positions(workload)) ** 0.5

    def objective(state: dict[str, Any], y: Any) -> tuple[Any, Any]:
        layout = ("NHWC", "HWIO", "NHWC")
        found = jax.lax.conv_general_dilated(state["x"], state["w"], (1, 1), "SAME", dimension_numbers=layout)
        squares = jnp.sum(jnp.square((found - y).astype(jnp.float32))) / 2
        return squares / root, squares / y.size

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        gradients, loss = jax.grad(objective, has_aux=True)(state, batch["y"])
        return {
            "x": state["x"] - RATE * root * gradients["x"],
            "w": state["w"] - RATE / root * gradients["w"],
        }, loss

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    root = float(_positions(workload)) ** 0.5

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(state)
            found = tf.nn.conv2d(state["x"], state["w"], 1, "SAME")
            squares = tf.reduce_sum(tf.square(tf.cast(found - batch["y"], tf.float32))) / 2
            objective = squares / root
        gradients = tape.gradient(objective, state)
        return {
            "x": state["x"] - RATE * root * gradients["x"],
            "w": state["w"] - RATE / root * gradients["w"],
        }, squares / batch["y"].shape.num_elements()

    return step
