"""ResNet-50 (He et al. 2016): training step with momentum and batch statistics, or classification (mode=infer).

shape  image, width, classes, stage1 … stage4 (blocks a stage); 25,557,032 parameters at paper size (224², 3 4 6 3)
batch  images (rows, image, image, 3), NHWC;  train: labels (rows,) int32
loss   train: cross entropy, mean over rows;  infer: of the logits (rows, classes), with running statistics
State, batch and losses of both modes: nn/model.py; running means and variances are part of the state.

In spirit Flax's ImageNet example and tf.keras: the stride of a block in its 3×3 convolution (version 1.5), SAME
padding, no bias before a normalisation. TensorFlow has one operation for batch normalisation, JAX leaves the fusion to
XLA; both count the variance of the running statistics with n − 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn import model, numpy_layers, parameters
from runners.workloads.page import Arrays, Problem, WorkCounts, constant, integers, normal

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

EPSILON = 1e-5
#: What a step adds of its own to the running statistics.
SHARE = 0.1
CHANNELS, GROWTH = 3, 4
OPTIMISER = model.Momentum(rate=1e-3)

#: One convolution with its normalisation: name, taps a side, inputs, outputs, stride, size of its square input.
Layer = tuple[str, int, int, int, int, int]
#: The layers of one block: the chain of three, and the shortcut where it has one.
Block = tuple[list[Layer], Layer | None]


def _blocks(workload: WorkloadSpec) -> tuple[Layer, list[Block]]:
    """The first convolution and every block, in order."""
    shape = workload.shape
    stem = ("stem", 7, CHANNELS, shape["width"], 2, shape["image"])
    size, inputs, blocks = -(-shape["image"] // 4), shape["width"], []
    for stage in range(4):
        middle = shape["width"] * 2**stage
        for index in range(shape[f"stage{stage + 1}"]):
            name, stride, outputs = f"stage{stage + 1}/block{index}", 2 if stage and not index else 1, middle * GROWTH
            inner = -(-size // stride)
            chain: list[Layer] = [
                (f"{name}/reduce", 1, inputs, middle, 1, size),
                (f"{name}/space", 3, middle, middle, stride, size),
                (f"{name}/expand", 1, middle, outputs, 1, inner),
            ]
            shortcut = None if index else (f"{name}/shortcut", 1, inputs, outputs, stride, size)
            blocks.append((chain, shortcut))
            size, inputs = inner, outputs
    return stem, blocks


def _layers(workload: WorkloadSpec) -> list[Layer]:
    stem, blocks = _blocks(workload)
    return [stem, *(layer for chain, shortcut in blocks for layer in [*chain, *([shortcut] if shortcut else [])])]


def _parameters(workload: WorkloadSpec) -> parameters.Parameters:
    dtype, found = model.parameter_dtype(workload), {}
    for name, taps, inner, outer, _, _ in _layers(workload):
        found.update(parameters.convolution(name, taps, inner, outer, dtype))
        found.update(parameters.norm(name, outer, scale=0.0 if name.endswith("expand") else 1.0))
    features = workload.shape["width"] * 8 * GROWTH
    return {**found, **parameters.dense("head", features, workload.shape["classes"], dtype, features**-0.5)}


def _statistics(workload: WorkloadSpec) -> parameters.Parameters:
    return {
        f"{name}/{statistic}": constant((outer,), "float32", value)
        for name, _, _, outer, _, _ in _layers(workload)
        for statistic, value in (("mean", 0.0), ("variance", 1.0))
    }


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Images standard normal, labels uniform; kernels He normal, running means 0 and variances 1.

    Scales are 1, but 0 at the end of a block (Goyal et al. 2017): with 1 the gradients of a batch this small grow by a
    fifth a layer, and two exact computations of 50 layers part after a few steps.
    """
    shape, rows = workload.shape, workload.batch_size
    data = {"images": normal((rows, shape["image"], shape["image"], CHANNELS), workload.dtype)}
    if workload.mode != "infer":
        data["labels"] = integers((rows,), shape["classes"])
    weights, kept = _parameters(workload), _statistics(workload)
    return model.problem(workload, seed, weights, data, OPTIMISER, (rows, shape["classes"]), kept)


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays | None, float]]:
    """The forward loss in float64."""
    nn = numpy_layers
    stem, blocks = _blocks(workload)

    def norm(p: Arrays, batch: Arrays, name: str, x: np.ndarray) -> np.ndarray:
        mean, variance = x.mean(axis=(0, 1, 2)), x.var(axis=(0, 1, 2))
        if workload.mode == "infer":
            mean, variance = batch[f"s/{name}/mean"], batch[f"s/{name}/variance"]
        return (x - mean) / np.sqrt(variance + EPSILON) * p[f"{name}/scale"] + p[f"{name}/bias"]

    def logits_of(p: Arrays, batch: Arrays, images: np.ndarray) -> np.ndarray:
        def layer(one: Layer, x: np.ndarray) -> np.ndarray:
            name, _, _, _, stride, _ = one
            return norm(p, batch, name, nn.convolution(x, p[f"{name}/kernel"], stride))

        x = nn.largest(np.maximum(layer(stem, images), 0), 3, 2)
        for chain, shortcut in blocks:
            kept = layer(shortcut, x) if shortcut else x
            for one in chain[:-1]:
                x = np.maximum(layer(one, x), 0)
            x = np.maximum(layer(chain[-1], x) + kept, 0)
        return nn.dense(p, "head", x.mean(axis=(1, 2)))

    def loss_of(p: Arrays, batch: Arrays) -> float:
        return nn.cross_entropy(logits_of(p, batch, batch["images"]), batch["labels"])

    def outputs_of(p: Arrays, batch: Arrays, step: int) -> np.ndarray:
        return logits_of(p, batch, batch["images"] + step % 8 / 8)

    return model.reference(workload, problem, loss_of, outputs_of)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """FLOPs of the convolutions, taps inside the image only, and of the head. The first one's input is data."""
    rows, costs = workload.batch_size, []
    for _, taps, inner, outer, stride, size in _layers(workload):
        costs.append(2 * rows * inner * outer * parameters.same_taps(size, taps, stride) ** 2)
    head = 2 * rows * workload.shape["width"] * 8 * GROWTH * workload.shape["classes"]
    forward = sum(costs) + head
    return model.counts(workload, inputs(workload, 0), _parameters(workload), forward, first_flops=costs[0])


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    from runners.frameworks import jax_layers as nn

    stem, blocks = _blocks(workload)
    training = workload.mode != "infer"

    def norm(p: dict[str, Any], batch: dict[str, Any], name: str, x: Any, new: dict[str, Any]) -> Any:
        mean, variance = batch[f"s/{name}/mean"], batch[f"s/{name}/variance"]
        wide = x.astype(jnp.float32)
        if training:
            number = x.size // x.shape[-1]
            before, mean = mean, jnp.mean(wide, axis=(0, 1, 2))
            spread = jnp.mean(jnp.square(wide), axis=(0, 1, 2)) - jnp.square(mean)
            new[f"{name}/mean"] = (1 - SHARE) * before + SHARE * mean
            new[f"{name}/variance"] = (1 - SHARE) * variance + SHARE * spread * (number / (number - 1))
            variance = spread
        scale = jax.lax.rsqrt(variance + EPSILON) * p[f"{name}/scale"]
        return ((wide - mean) * scale + p[f"{name}/bias"]).astype(x.dtype)

    def logits_of(p: dict[str, Any], batch: dict[str, Any], images: Any) -> tuple[Any, dict[str, Any]]:
        new: dict[str, Any] = {}

        def layer(one: Layer, x: Any) -> Any:
            name, _, _, _, stride, _ = one
            kernel, layout = p[f"{name}/kernel"].astype(x.dtype), ("NHWC", "HWIO", "NHWC")
            x = jax.lax.conv_general_dilated(x, kernel, (stride, stride), "SAME", dimension_numbers=layout)
            return norm(p, batch, name, x, new)

        x = jax.nn.relu(layer(stem, images))
        x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        for chain, shortcut in blocks:
            kept = layer(shortcut, x) if shortcut else x
            for one in chain[:-1]:
                x = jax.nn.relu(layer(one, x))
            x = jax.nn.relu(layer(chain[-1], x) + kept)
        return nn.dense(p, "head", jnp.mean(x, axis=(1, 2))), new

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        logits, new = logits_of(p, batch, batch["images"])
        return nn.cross_entropy(logits, batch["labels"]), jax.lax.stop_gradient(new)

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        offset = ((step % 8) / 8).astype(workload.dtype)
        return logits_of(p, batch, batch["images"] + offset)[0]

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    from runners.frameworks import tf_layers as nn

    stem, blocks = _blocks(workload)
    training = workload.mode != "infer"

    def norm(p: dict[str, Any], batch: dict[str, Any], name: str, x: Any, new: dict[str, Any]) -> Any:
        x, new[f"{name}/mean"], new[f"{name}/variance"] = tf.compat.v1.nn.fused_batch_norm(
            x,
            p[f"{name}/scale"],
            p[f"{name}/bias"],
            batch[f"s/{name}/mean"],
            batch[f"s/{name}/variance"],
            epsilon=EPSILON,
            is_training=training,
            exponential_avg_factor=SHARE if training else 1.0,
        )
        return x

    def logits_of(p: dict[str, Any], batch: dict[str, Any], images: Any) -> tuple[Any, dict[str, Any]]:
        new: dict[str, Any] = {}

        def layer(one: Layer, x: Any) -> Any:
            name, _, _, _, stride, _ = one
            return norm(p, batch, name, tf.nn.conv2d(x, tf.cast(p[f"{name}/kernel"], x.dtype), stride, "SAME"), new)

        x = tf.nn.max_pool2d(tf.nn.relu(layer(stem, images)), 3, 2, "SAME")
        for chain, shortcut in blocks:
            kept = layer(shortcut, x) if shortcut else x
            for one in chain[:-1]:
                x = tf.nn.relu(layer(one, x))
            x = tf.nn.relu(layer(chain[-1], x) + kept)
        return nn.dense(p, "head", tf.reduce_mean(x, axis=[1, 2])), new

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        logits, new = logits_of(p, batch, batch["images"])
        return nn.cross_entropy(logits, batch["labels"]), new

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        offset = tf.cast(tf.cast(step % 8, tf.float32) / 8, workload.dtype)
        return logits_of(p, batch, batch["images"] + offset)[0]

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)
