"""One block of multi-head self-attention, its training step or its forward pass: shape.sequence is the factor to vary.

shape  sequence, width, heads;  four products of width² a token, two of the sequence's length a token
batch  x (rows, sequence, width);  train: targets (width,), the same for every token
loss   train: half the mean squared error of the block's output;  infer: of the output (rows, sequence, width)
State, batch and losses of both modes: nn/model.py.

The plain form of both communities: einsum, softmax in float32, the whole square of scores in memory (no flash kernel:
TensorFlow brings none). float32 matching: see nn/model.py, Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn import model, numpy_layers, parameters
from runners.workloads.page import Arrays, Problem, WorkCounts, normal, require_multiple

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

OPTIMISER = model.Adam(rate=2.0**-6)


def _parameters(workload: WorkloadSpec) -> parameters.Parameters:
    width, dtype = workload.shape["width"], model.parameter_dtype(workload)
    deviation = float(width**-0.5)
    return {
        **parameters.dense("qkv", width, 3 * width, dtype, deviation),
        **parameters.dense("out", width, width, dtype, deviation),
    }


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """x and targets standard normal, kernels normal of variance 1 / width."""
    require_multiple(workload, "width", "heads")
    shape = (workload.batch_size, workload.shape["sequence"], workload.shape["width"])
    data = {"x": normal(shape, workload.dtype)}
    if workload.mode != "infer":
        data["targets"] = normal((workload.shape["width"],), workload.dtype)
    return model.problem(workload, seed, _parameters(workload), data, OPTIMISER, shape)


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays | None, float]]:
    """The forward loss in float64."""

    def block(p: Arrays, x: np.ndarray) -> np.ndarray:
        named = {f"block/{name}": one for name, one in p.items()}
        return numpy_layers.attention(named, "block", x, workload.shape["heads"], causal=False)

    return model.reference(
        workload,
        problem,
        lambda p, batch: float(np.mean((block(p, batch["x"]) - batch["targets"]) ** 2) / 2),
        lambda p, batch, step: block(p, batch["x"] * (1 + step % 8 / 8)),
    )


def counts(workload: WorkloadSpec) -> WorkCounts:
    """FLOPs of the products, forward: 8·width² a token of dense ones, 4·sequence·width of attention. x is data."""
    rows, (sequence, width) = workload.batch_size, (workload.shape[key] for key in ("sequence", "width"))
    first = 6 * rows * sequence * width**2
    forward = first + 2 * rows * sequence * width**2 + 4 * rows * sequence**2 * width
    return model.counts(workload, inputs(workload, 0), _parameters(workload), forward, first_flops=first)


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    from runners.frameworks import jax_layers as nn

    def block(p: dict[str, Any], x: Any) -> Any:
        named = {f"block/{name}": one for name, one in p.items()}
        return nn.attention(named, "block", x, workload.shape["heads"], causal=False)

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        errors = (block(p, batch["x"]) - batch["targets"]).astype(jnp.float32)
        return jnp.mean(jnp.square(errors)) / 2

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        return block(p, batch["x"] * (1 + (step % 8) / 8).astype(workload.dtype))

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    from runners.frameworks import tf_layers as nn

    def block(p: dict[str, Any], x: Any) -> Any:
        named = {f"block/{name}": one for name, one in p.items()}
        return nn.attention(named, "block", x, workload.shape["heads"], causal=False)

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        errors = tf.cast(block(p, batch["x"]) - batch["targets"], tf.float32)
        return tf.reduce_mean(tf.square(errors)) / 2

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        return block(p, batch["x"] * tf.cast(1 + tf.cast(step % 8, tf.float32) / 8, workload.dtype))

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)
