"""BERT base (Devlin et al. 2019): masked-LM training step with Adam, or encoding of sentences (workload.mode=infer).

shape  sequence, width, layers, heads, vocabulary, predictions (masked positions a sentence);
       109,482,240 parameters at paper size: encoder, embeddings and pooler
batch  tokens, types (rows, sequence) int32;  train: positions, labels (rows, predictions) int32
loss   train: cross entropy, mean over the masked positions;  infer: of the pooled first token (rows, width)
State, batch and losses of both modes: nn/model.py.

In spirit google-research/bert: post-norm blocks, logits at the masked positions alone, output tied to the embedding.
There is no head between (the published one is no part of the 109 M), so the pooler's gradient is zero while training.
Without dropout and without padding, so no attention mask. float32 matching: see nn/model.py, Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn import model, numpy_layers, parameters
from runners.workloads.page import Arrays, Problem, WorkCounts, integers, normal, require_multiple

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

EPSILON = 1e-12
TYPES = 2
OPTIMISER = model.Adam(rate=1e-3)
#: The tokens of an inference step are those of the step before, moved by this within the vocabulary.
TOKEN_MOVE = 7


def _parameters(workload: WorkloadSpec) -> parameters.Parameters:
    shape, dtype = workload.shape, model.parameter_dtype(workload)
    width = shape["width"]
    blocks = [parameters.transformer_block(f"block{i:02}", width, dtype) for i in range(shape["layers"])]
    return {
        "tokens": normal((shape["vocabulary"], width), dtype, parameters.DEVIATION),
        "positions": normal((shape["sequence"], width), dtype, parameters.DEVIATION),
        "types": normal((TYPES, width), dtype, parameters.DEVIATION),
        **parameters.norm("norm", width),
        **{name: one for block in blocks for name, one in block.items()},
        **parameters.dense("pooler", width, width, dtype),
    }


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Weights normal with deviation 0.02; tokens, types, masked positions and labels uniform."""
    require_multiple(workload, "width", "heads")
    shape, rows = workload.shape, workload.batch_size
    data = {
        "tokens": integers((rows, shape["sequence"]), shape["vocabulary"]),
        "types": integers((rows, shape["sequence"]), TYPES),
    }
    if workload.mode != "infer":
        data["positions"] = integers((rows, shape["predictions"]), shape["sequence"])
        data["labels"] = integers((rows, shape["predictions"]), shape["vocabulary"])
    return model.problem(workload, seed, _parameters(workload), data, OPTIMISER, (rows, shape["width"]))


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays | None, float]]:
    """The forward loss in float64."""
    nn, heads = numpy_layers, workload.shape["heads"]

    def encoded(p: Arrays, tokens: np.ndarray, types: np.ndarray) -> np.ndarray:
        x = nn.layer_norm(p, "norm", p["tokens"][tokens] + p["positions"] + p["types"][types], EPSILON)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            x = nn.layer_norm(p, f"{name}/norm1", x + nn.attention(p, name, x, heads, causal=False), EPSILON)
            x = nn.layer_norm(p, f"{name}/norm2", x + nn.mlp(p, name, x), EPSILON)
        return x

    def loss_of(p: Arrays, batch: Arrays) -> float:
        x = encoded(p, batch["tokens"], batch["types"])
        masked = np.take_along_axis(x, batch["positions"][..., None], axis=1).reshape(-1, x.shape[-1])
        return nn.cross_entropy(masked @ p["tokens"].T, batch["labels"].reshape(-1))

    def outputs_of(p: Arrays, batch: Arrays, step: int) -> np.ndarray:
        moved = (batch["tokens"] + TOKEN_MOVE * step) % workload.shape["vocabulary"]
        return np.tanh(nn.dense(p, "pooler", encoded(p, moved, batch["types"])[:, 0]))

    return model.reference(workload, problem, loss_of, outputs_of)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """FLOPs of the products: the blocks (nn/parameters.py), and the masked positions' logits or the pooler."""
    shape, rows = workload.shape, workload.batch_size
    blocks = parameters.transformer_flops(rows, shape["sequence"], shape["width"], shape["layers"])
    logits = 2 * rows * shape["predictions"] * shape["width"] * shape["vocabulary"]
    pooler = 2 * rows * shape["width"] ** 2
    forward = blocks + (pooler if workload.mode == "infer" else logits)
    return model.counts(workload, inputs(workload, 0), _parameters(workload), forward)


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    from runners.frameworks import jax_layers as nn

    def encoded(p: dict[str, Any], tokens: Any, types: Any) -> Any:
        embedded = (p["tokens"][tokens] + p["positions"] + p["types"][types]).astype(workload.dtype)
        x = nn.layer_norm(p, "norm", embedded, EPSILON)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            mixed = nn.attention(p, name, x, workload.shape["heads"], causal=False)
            x = nn.layer_norm(p, f"{name}/norm1", x + mixed, EPSILON)
            x = nn.layer_norm(p, f"{name}/norm2", x + nn.mlp(p, name, x), EPSILON)
        return x

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        x = encoded(p, batch["tokens"], batch["types"])
        masked = jnp.take_along_axis(x, batch["positions"][..., None], axis=1).reshape(-1, x.shape[-1])
        return nn.cross_entropy(masked @ p["tokens"].astype(x.dtype).T, batch["labels"].reshape(-1))

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        moved = (batch["tokens"] + TOKEN_MOVE * step) % workload.shape["vocabulary"]
        return jnp.tanh(nn.dense(p, "pooler", encoded(p, moved, batch["types"])[:, 0]))

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    from runners.frameworks import tf_layers as nn

    def encoded(p: dict[str, Any], tokens: Any, types: Any) -> Any:
        embedded = tf.gather(p["tokens"], tokens) + p["positions"] + tf.gather(p["types"], types)
        x = nn.layer_norm(p, "norm", tf.cast(embedded, workload.dtype), EPSILON)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            mixed = nn.attention(p, name, x, workload.shape["heads"], causal=False)
            x = nn.layer_norm(p, f"{name}/norm1", x + mixed, EPSILON)
            x = nn.layer_norm(p, f"{name}/norm2", x + nn.mlp(p, name, x), EPSILON)
        return x

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        x = encoded(p, batch["tokens"], batch["types"])
        masked = tf.reshape(tf.gather(x, batch["positions"], batch_dims=1), [-1, workload.shape["width"]])
        logits = tf.matmul(masked, tf.cast(p["tokens"], x.dtype), transpose_b=True)
        return nn.cross_entropy(logits, tf.reshape(batch["labels"], [-1]))

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        moved = (batch["tokens"] + TOKEN_MOVE * step) % workload.shape["vocabulary"]
        return tf.tanh(nn.dense(p, "pooler", encoded(p, moved, batch["types"])[:, 0]))

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)
