"""One training step of a multilayer perceptron: `layers` hidden layers of `width` with ReLU, a linear output, SGD.

state  w0 … wL  (width, width), the last (width, classes);  b0 … bL  (width,), the last (classes,);  L = layers
batch  x  (rows, width)  rows = batch size;  labels  (rows,) int32 in [0, classes)
loss   softmax cross entropy, mean over rows, before the update   (float32)

New weights = weights − RATE · gradient. The same batch comes at every step, so the loss falls towards 0 and the weights
stay finite. Idioms: jax.value_and_grad over a dict of arrays, as JAX's own mnist_classifier_fromscratch; one
tf.GradientTape, as TensorFlow's guide to training loops; in both the loss straight from the logits.
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
    integers,
    item_bytes,
    normal,
)

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

#: Learning rate; a power of two, exact in every dtype.
RATE = 2.0**-5


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x standard normal, labels uniform, weights normal with variance 2 / inputs (He), biases 0."""
    rows, shape, state = workload.batch_size, workload.shape, {}
    for index, (m, n) in enumerate(_layers(workload)):
        state[f"w{index}"] = normal((m, n), workload.dtype, np.sqrt(2 / m))
        state[f"b{index}"] = constant((n,), workload.dtype)
    x = normal((rows, shape["width"]), workload.dtype)
    return describe(seed, state, {"x": x, "labels": integers((rows,), shape["classes"])})


def _layers(workload: WorkloadSpec) -> list[tuple[int, int]]:
    """(inputs, outputs) of every layer."""
    width, classes = workload.shape["width"], workload.shape["classes"]
    return [(width, width)] * workload.shape["layers"] + [(width, classes)]


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64, backpropagation written out."""
    state, batch = in_float64(problem.state), in_float64(problem.batch)
    depth, rows = len(state) // 2, np.arange(len(batch["labels"]))
    while True:
        activations = [batch["x"]]
        for i in range(depth):
            z = activations[-1] @ state[f"w{i}"] + state[f"b{i}"]
            activations.append(np.maximum(z, 0) if i < depth - 1 else z)
        logits = activations.pop()
        shifted = logits - logits.max(axis=1, keepdims=True)
        log_probability = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        loss = -log_probability[rows, batch["labels"]].mean()
        delta = np.exp(log_probability)
        delta[rows, batch["labels"]] -= 1
        delta /= len(rows)
        new = {}
        for i in reversed(range(depth)):
            new[f"w{i}"] = state[f"w{i}"] - RATE * activations[i].T @ delta
            new[f"b{i}"] = state[f"b{i}"] - RATE * delta.sum(axis=0)
            delta = (delta @ state[f"w{i}"].T) * (activations[i] > 0)
        state = new
        yield state, float(loss)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: the matrix products only, 2·rows·inputs·outputs each: forward, gradient of the weights, gradient of the
    inputs (not for the first layer, whose inputs are data). bytes: weights read and written, batch read."""
    layers, rows, item = _layers(workload), workload.batch_size, item_bytes(workload.dtype)
    forward = sum(2 * rows * m * n for m, n in layers)
    parameters = sum(m * n + n for m, n in layers)
    flops = 3 * forward - 2 * rows * layers[0][0] * layers[0][1]
    return WorkCounts(
        parameters=parameters,
        flops=flops,
        bytes=(2 * parameters + rows * workload.shape["width"]) * item + 4 * rows,
        examples=rows,
        matrix_flops=flops,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    def loss_of(state: dict[str, Any], batch: dict[str, Any]) -> Any:
        x, depth = batch["x"], len(state) // 2
        for i in range(depth - 1):
            x = jax.nn.relu(x @ state[f"w{i}"] + state[f"b{i}"])
        logits = (x @ state[f"w{depth - 1}"] + state[f"b{depth - 1}"]).astype(jnp.float32)
        chosen = jnp.take_along_axis(logits, batch["labels"][:, None], axis=1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - chosen)

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        loss, gradients = jax.value_and_grad(loss_of)(state, batch)
        return {name: state[name] - RATE * gradients[name] for name in state}, loss

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def loss_of(state: dict[str, Any], batch: dict[str, Any]) -> Any:
        x, depth = batch["x"], len(state) // 2
        for i in range(depth - 1):
            x = tf.nn.relu(x @ state[f"w{i}"] + state[f"b{i}"])
        logits = tf.cast(x @ state[f"w{depth - 1}"] + state[f"b{depth - 1}"], tf.float32)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits))

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(state)
            loss = loss_of(state, batch)
        gradients = tape.gradient(loss, state)
        return {name: state[name] - RATE * gradients[name] for name in state}, loss

    return step
