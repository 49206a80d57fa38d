"""Vision Transformer ViT-B/16 (Dosovitskiy et al. 2021): training step with Adam, or classification (mode=infer).

shape  image, patch, width, layers, heads, classes; 86,567,656 parameters at paper size (224², patches of 16², head)
batch  images (rows, image, image, 3);  train: labels (rows,) int32
loss   train: cross entropy, mean over rows;  infer: of the logits (rows, classes)
State, batch and losses of both modes: nn/model.py.

In spirit google-research/vision_transformer (Flax): patches by a convolution with its own stride, a class token,
pre-norm blocks, learned positions; without dropout. float32 matching: see nn/model.py, Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn import model, numpy_layers, parameters
from runners.workloads.page import Arrays, Problem, WorkCounts, constant, integers, normal, require_multiple

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

EPSILON = 1e-6
CHANNELS = 3
OPTIMISER = model.Adam(rate=1e-4)


def _sequence(workload: WorkloadSpec) -> int:
    """Patches and the class token."""
    return (workload.shape["image"] // workload.shape["patch"]) ** 2 + 1


def _parameters(workload: WorkloadSpec) -> parameters.Parameters:
    shape, dtype = workload.shape, model.parameter_dtype(workload)
    width, patch = shape["width"], shape["patch"]
    blocks = [parameters.transformer_block(f"block{i:02}", width, dtype) for i in range(shape["layers"])]
    return {
        "patches/kernel": normal((patch, patch, CHANNELS, width), dtype, float(np.sqrt(1 / (patch**2 * CHANNELS)))),
        "patches/bias": constant((width,), dtype),
        "class": normal((1, 1, width), dtype, parameters.DEVIATION),
        "positions": normal((_sequence(workload), width), dtype, parameters.DEVIATION),
        **{name: one for block in blocks for name, one in block.items()},
        **parameters.norm("norm", width),
        **parameters.dense("head", width, shape["classes"], dtype, float(np.sqrt(1 / width))),
    }


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Images standard normal, labels uniform; weights normal, with deviation 0.02 in the blocks."""
    require_multiple(workload, "width", "heads")
    require_multiple(workload, "image", "patch")
    shape, rows = workload.shape, workload.batch_size
    data = {"images": normal((rows, shape["image"], shape["image"], CHANNELS), workload.dtype)}
    if workload.mode != "infer":
        data["labels"] = integers((rows,), shape["classes"])
    return model.problem(workload, seed, _parameters(workload), data, OPTIMISER, (rows, shape["classes"]))


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays | None, float]]:
    """The forward loss in float64."""
    nn, shape = numpy_layers, workload.shape
    side = shape["image"] // shape["patch"]

    def logits_of(p: Arrays, images: np.ndarray) -> np.ndarray:
        rows = len(images)
        patches = images.reshape(rows, side, shape["patch"], side, shape["patch"], CHANNELS).swapaxes(2, 3)
        kernel = p["patches/kernel"].reshape(-1, shape["width"])
        x = patches.reshape(rows, side * side, -1) @ kernel + p["patches/bias"]
        x = np.concatenate([np.repeat(p["class"], rows, axis=0), x], axis=1) + p["positions"]
        for i in range(shape["layers"]):
            name = f"block{i:02}"
            normed = nn.layer_norm(p, f"{name}/norm1", x, EPSILON)
            x = x + nn.attention(p, name, normed, shape["heads"], causal=False)
            x = x + nn.mlp(p, name, nn.layer_norm(p, f"{name}/norm2", x, EPSILON))
        return nn.dense(p, "head", nn.layer_norm(p, "norm", x[:, 0], EPSILON))

    def loss_of(p: Arrays, batch: Arrays) -> float:
        return nn.cross_entropy(logits_of(p, batch["images"]), batch["labels"])

    def outputs_of(p: Arrays, batch: Arrays, step: int) -> np.ndarray:
        return logits_of(p, batch["images"] + step % 8 / 8)

    return model.reference(workload, problem, loss_of, outputs_of)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """FLOPs of the products: patches, blocks (nn/parameters.py), head. The patches' input is data."""
    shape, rows, width = workload.shape, workload.batch_size, workload.shape["width"]
    patches = 2 * rows * (_sequence(workload) - 1) * shape["patch"] ** 2 * CHANNELS * width
    blocks = parameters.transformer_flops(rows, _sequence(workload), width, shape["layers"])
    forward = patches + blocks + 2 * rows * width * shape["classes"]
    return model.counts(workload, inputs(workload, 0), _parameters(workload), forward, first_flops=patches)


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    from runners.frameworks import jax_layers as nn

    patch, width = workload.shape["patch"], workload.shape["width"]

    def logits_of(p: dict[str, Any], images: Any) -> Any:
        rows = images.shape[0]
        layout = ("NHWC", "HWIO", "NHWC")
        kernel = p["patches/kernel"].astype(images.dtype)
        x = jax.lax.conv_general_dilated(images, kernel, (patch, patch), "VALID", dimension_numbers=layout)
        x = x.reshape(rows, -1, width) + p["patches/bias"].astype(x.dtype)
        first = jnp.broadcast_to(p["class"].astype(x.dtype), (rows, 1, width))
        x = jnp.concatenate([first, x], axis=1) + p["positions"].astype(x.dtype)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            normed = nn.layer_norm(p, f"{name}/norm1", x, EPSILON)
            x = x + nn.attention(p, name, normed, workload.shape["heads"], causal=False)
            x = x + nn.mlp(p, name, nn.layer_norm(p, f"{name}/norm2", x, EPSILON))
        return nn.dense(p, "head", nn.layer_norm(p, "norm", x[:, 0], EPSILON))

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        return nn.cross_entropy(logits_of(p, batch["images"]), batch["labels"])

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        offset = ((step % 8) / 8).astype(workload.dtype)
        return logits_of(p, batch["images"] + offset)

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    from runners.frameworks import tf_layers as nn

    patch, width = workload.shape["patch"], workload.shape["width"]

    def logits_of(p: dict[str, Any], images: Any) -> Any:
        rows = images.shape[0]
        x = tf.nn.conv2d(images, tf.cast(p["patches/kernel"], images.dtype), patch, "VALID")
        x = tf.reshape(tf.nn.bias_add(x, tf.cast(p["patches/bias"], x.dtype)), [rows, -1, width])
        first = tf.broadcast_to(tf.cast(p["class"], x.dtype), [rows, 1, width])
        x = tf.concat([first, x], axis=1) + tf.cast(p["positions"], x.dtype)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            normed = nn.layer_norm(p, f"{name}/norm1", x, EPSILON)
            x = x + nn.attention(p, name, normed, workload.shape["heads"], causal=False)
            x = x + nn.mlp(p, name, nn.layer_norm(p, f"{name}/norm2", x, EPSILON))
        return nn.dense(p, "head", nn.layer_norm(p, "norm", x[:, 0], EPSILON))

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        return nn.cross_entropy(logits_of(p, batch["images"]), batch["labels"])

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        offset = tf.cast(tf.cast(step % 8, tf.float32) / 8, workload.dtype)
        return logits_of(p, batch["images"] + offset)

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)
