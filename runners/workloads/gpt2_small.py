"""GPT-2 small (Radford et al. 2019): training step with Adam, or the processing of a prompt (workload.mode=infer).

shape  sequence, width, layers, heads, vocabulary; 124,439,808 parameters at paper size, the head tied to the embedding
batch  tokens (rows, sequence) int32;  train: labels (rows, sequence) int32, the next tokens
loss   train: cross entropy, mean over all positions;  infer: of the logits (rows, vocabulary) of the last position
State, batch and losses of both modes: nn/model.py.

In spirit Karpathy's nanoGPT (pre-norm blocks, one product for q, k and v, fused cross entropy), without dropout; layers
written out one after the other, as both communities do for twelve. float32 matching: see nn/model.py, Adam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn import model, numpy_layers, parameters
from runners.workloads.page import Arrays, Problem, WorkCounts, integers, normal, require_multiple

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

EPSILON = 1e-5
OPTIMISER = model.Adam(rate=6e-4)
#: The tokens of an inference step are those of the step before, moved by this within the vocabulary.
TOKEN_MOVE = 7


def _parameters(workload: WorkloadSpec) -> parameters.Parameters:
    shape, dtype = workload.shape, model.parameter_dtype(workload)
    width = shape["width"]
    blocks = [parameters.transformer_block(f"block{i:02}", width, dtype) for i in range(shape["layers"])]
    return {
        "tokens": normal((shape["vocabulary"], width), dtype, parameters.DEVIATION),
        "positions": normal((shape["sequence"], width), dtype, parameters.DEVIATION),
        **{name: one for block in blocks for name, one in block.items()},
        **parameters.norm("norm", width),
    }


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Weights normal with deviation 0.02; tokens and labels uniform."""
    require_multiple(workload, "width", "heads")
    shape, rows = workload.shape, workload.batch_size
    names = ("tokens",) if workload.mode == "infer" else ("tokens", "labels")
    data = {name: integers((rows, shape["sequence"]), shape["vocabulary"]) for name in names}
    outputs = (rows, shape["vocabulary"])
    return model.problem(workload, seed, _parameters(workload), data, OPTIMISER, outputs)


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays | None, float]]:
    """The forward loss in float64."""
    nn, heads = numpy_layers, workload.shape["heads"]

    def hidden(p: Arrays, tokens: np.ndarray) -> np.ndarray:
        x = p["tokens"][tokens] + p["positions"]
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            x = x + nn.attention(p, name, nn.layer_norm(p, f"{name}/norm1", x, EPSILON), heads, causal=True)
            x = x + nn.mlp(p, name, nn.layer_norm(p, f"{name}/norm2", x, EPSILON))
        return nn.layer_norm(p, "norm", x, EPSILON)

    def loss_of(p: Arrays, batch: Arrays) -> float:
        logits = hidden(p, batch["tokens"]) @ p["tokens"].T
        return nn.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch["labels"].reshape(-1))

    def outputs_of(p: Arrays, batch: Arrays, step: int) -> np.ndarray:
        moved = (batch["tokens"] + TOKEN_MOVE * step) % workload.shape["vocabulary"]
        return hidden(p, moved)[:, -1] @ p["tokens"].T

    return model.reference(workload, problem, loss_of, outputs_of)


def counts(workload: WorkloadSpec) -> WorkCounts:
    """FLOPs of the products: the blocks (nn/parameters.py) and the head, of every position or of the last one."""
    shape, rows = workload.shape, workload.batch_size
    positions = 1 if workload.mode == "infer" else shape["sequence"]
    blocks = parameters.transformer_flops(rows, shape["sequence"], shape["width"], shape["layers"])
    head = 2 * rows * positions * shape["width"] * shape["vocabulary"]
    return model.counts(workload, inputs(workload, 0), _parameters(workload), blocks + head)


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    from runners.frameworks import jax_layers as nn

    def hidden(p: dict[str, Any], tokens: Any) -> Any:
        x = p["tokens"][tokens].astype(workload.dtype) + p["positions"].astype(workload.dtype)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            normed = nn.layer_norm(p, f"{name}/norm1", x, EPSILON)
            x = x + nn.attention(p, name, normed, workload.shape["heads"], causal=True)
            x = x + nn.mlp(p, name, nn.layer_norm(p, f"{name}/norm2", x, EPSILON))
        return nn.layer_norm(p, "norm", x, EPSILON)

    def logits_of(p: dict[str, Any], x: Any) -> Any:
        return jnp.einsum("...e,ve->...v", x, p["tokens"].astype(x.dtype))

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        logits = logits_of(p, hidden(p, batch["tokens"]))
        return nn.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch["labels"].reshape(-1))

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        moved = (batch["tokens"] + TOKEN_MOVE * step) % workload.shape["vocabulary"]
        return logits_of(p, hidden(p, moved)[:, -1])

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    from runners.frameworks import tf_layers as nn

    def hidden(p: dict[str, Any], tokens: Any) -> Any:
        x = tf.cast(tf.gather(p["tokens"], tokens), workload.dtype) + tf.cast(p["positions"], workload.dtype)
        for i in range(workload.shape["layers"]):
            name = f"block{i:02}"
            normed = nn.layer_norm(p, f"{name}/norm1", x, EPSILON)
            x = x + nn.attention(p, name, normed, workload.shape["heads"], causal=True)
            x = x + nn.mlp(p, name, nn.layer_norm(p, f"{name}/norm2", x, EPSILON))
        return nn.layer_norm(p, "norm", x, EPSILON)

    def logits_of(p: dict[str, Any], x: Any) -> Any:
        rows = tf.reshape(x, [-1, workload.shape["width"]])
        return tf.matmul(rows, tf.cast(p["tokens"], x.dtype), transpose_b=True)

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> Any:
        return nn.cross_entropy(logits_of(p, hidden(p, batch["tokens"])), tf.reshape(batch["labels"], [-1]))

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        moved = (batch["tokens"] + TOKEN_MOVE * step) % workload.shape["vocabulary"]
        return logits_of(p, hidden(p, moved)[:, -1])

    return nn.model_step(workload, OPTIMISER, loss_of, outputs_of)
