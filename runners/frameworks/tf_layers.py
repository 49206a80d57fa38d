"""Layers and optimisers in TensorFlow. Importing this file imports TensorFlow; pages do so inside their steps.

Activations have the dtype they come in; sums of normalisations, softmax and loss are float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from runners.specs import WorkloadSpec
from runners.workloads.nn.model import Adam, Optimiser, group, updated

Tree = dict[str, Any]


def dense(p: Tree, name: str, x: Any) -> Any:
    """x (…, inputs) → (…, outputs). One product of two matrices: a batched one would sum its kernel gradient apart."""
    kernel = tf.cast(p[f"{name}/kernel"], x.dtype)
    rows = tf.reshape(x, [-1, kernel.shape[0]])
    product = tf.nn.bias_add(tf.matmul(rows, kernel), tf.cast(p[f"{name}/bias"], x.dtype))
    return tf.reshape(product, [*x.shape[:-1], kernel.shape[1]])


def layer_norm(p: Tree, name: str, x: Any, epsilon: float) -> Any:
    """Over the last axis."""
    wide = tf.cast(x, tf.float32)
    mean = tf.reduce_mean(wide, axis=-1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(wide, mean), axis=-1, keepdims=True)
    scaled = (wide - mean) * tf.math.rsqrt(variance + epsilon) * p[f"{name}/scale"] + p[f"{name}/bias"]
    return tf.cast(scaled, x.dtype)


def attention(p: Tree, name: str, x: Any, heads: int, *, causal: bool) -> Any:
    """Self-attention over x (rows, sequence, width); no dropout, no padding."""
    rows, length, width = x.shape
    qkv = tf.reshape(dense(p, f"{name}/qkv", x), [rows, length, 3 * heads, width // heads])
    q, k, v = tf.split(qkv, 3, axis=2)
    scores = tf.cast(tf.einsum("bqhd,bkhd->bhqk", q * (width // heads) ** -0.5, k), tf.float32)
    if causal:
        scores = tf.where(tf.linalg.band_part(tf.ones([length, length], tf.bool), -1, 0), scores, tf.float32.min)
    weights = tf.cast(tf.nn.softmax(scores, axis=-1), x.dtype)
    mixed = tf.reshape(tf.einsum("bhqk,bkhd->bqhd", weights, v), [rows, length, width])
    return dense(p, f"{name}/out", mixed)


def mlp(p: Tree, name: str, x: Any) -> Any:
    """Up to four times the width, GELU in its tanh form, and down."""
    return dense(p, f"{name}/down", tf.nn.gelu(dense(p, f"{name}/up", x), approximate=True))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Mean over rows of logsumexp(logits) − logits[label], in TensorFlow's one operation for it."""
    wide = tf.cast(logits, tf.float32)
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, wide))


def model_step(
    workload: WorkloadSpec,
    optimiser: Optimiser,
    loss_of: Callable[[Tree, Tree], Any],
    outputs_of: Callable[[Tree, Tree, Any], Any],
) -> Callable[[Tree, Tree], tuple[Tree, Any]]:
    """The step of the workload's mode. `loss_of` gives the loss, or (loss, new running statistics)."""

    def train(state: Tree, batch: Tree) -> tuple[Tree, Any]:
        kept = {name: one for name, one in state.items() if name.startswith("s/")}
        parameters = group(state, "p/")
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(parameters)
            result = loss_of(parameters, {**batch, **kept})
            loss, statistics = result if isinstance(result, tuple) else (result, {})
        gradients = tape.gradient(loss, parameters, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = {name: tf.convert_to_tensor(gradient) for name, gradient in gradients.items()}
        new = {f"s/{name}": one for name, one in statistics.items()}
        return {**update(optimiser, state, gradients), **new}, loss

    def infer(state: Tree, batch: Tree) -> tuple[Tree, Any]:
        outputs = tf.cast(outputs_of(group(batch, "p/"), batch, state["step"]), tf.float32)
        loss = tf.reduce_mean(tf.square(outputs + state["outputs"]))
        return {"outputs": outputs, "step": state["step"] + 1}, loss

    return infer if workload.mode == "infer" else train


def update(optimiser: Optimiser, state: Tree, gradients: Tree) -> Tree:
    """New parameters and slots."""
    return updated(optimiser, state, gradients, _adam)


def _adam(adam: Adam, step: Any) -> Callable[..., Any]:
    number = tf.cast(step, tf.float32)
    # expm1 keeps 1 − decay^step exact to the last digits, which a power of 0.999 does not
    left1, left2 = (-tf.math.expm1(number * math.log(decay)) for decay in (adam.decay1, adam.decay2))
    rate = adam.rate * tf.sqrt(left2) / left1

    def change(gradient: Any, m: Any, v: Any) -> Any:
        m = adam.decay1 * m + (1 - adam.decay1) * gradient
        v = adam.decay2 * v + (1 - adam.decay2) * tf.square(gradient)
        return rate * m / (tf.sqrt(v) + adam.epsilon), m, v

    return change
