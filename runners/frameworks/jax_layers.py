"""Layers and optimisers in JAX. Importing this file imports JAX; pages do so inside their steps.

Activations have the dtype they come in; sums of normalisations, softmax and loss are float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from runners.specs import WorkloadSpec
from runners.workloads.nn.model import Adam, Optimiser, group, updated

Tree = dict[str, Any]


def dense(p: Tree, name: str, x: Any) -> Any:
    """x (…, inputs) → (…, outputs)."""
    return x @ p[f"{name}/kernel"].astype(x.dtype) + p[f"{name}/bias"].astype(x.dtype)


def layer_norm(p: Tree, name: str, x: Any, epsilon: float) -> Any:
    """Over the last axis."""
    wide = x.astype(jnp.float32)
    mean = jnp.mean(wide, axis=-1, keepdims=True)
    variance = jnp.mean(jnp.square(wide - mean), axis=-1, keepdims=True)
    scaled = (wide - mean) * jax.lax.rsqrt(variance + epsilon) * p[f"{name}/scale"] + p[f"{name}/bias"]
    return scaled.astype(x.dtype)


def attention(p: Tree, name: str, x: Any, heads: int, *, causal: bool) -> Any:
    """Self-attention over x (rows, sequence, width); no dropout, no padding."""
    rows, length, width = x.shape
    q, k, v = jnp.split(dense(p, f"{name}/qkv", x).reshape(rows, length, 3 * heads, width // heads), 3, axis=2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q * (width // heads) ** -0.5, k).astype(jnp.float32)
    if causal:
        scores = jnp.where(jnp.tri(length, dtype=bool), scores, jnp.finfo(jnp.float32).min)
    weights = jax.nn.softmax(scores, axis=-1).astype(x.dtype)
    mixed = jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(rows, length, width)
    return dense(p, f"{name}/out", mixed)


def mlp(p: Tree, name: str, x: Any) -> Any:
    """Up to four times the width, GELU in its tanh form, and down."""
    return dense(p, f"{name}/down", jax.nn.gelu(dense(p, f"{name}/up", x), approximate=True))


def cross_entropy(logits: Any, labels: Any) -> Any:
    """Mean over rows of logsumexp(logits) − logits[label]; the probabilities are never stored."""
    wide = logits.astype(jnp.float32)
    chosen = jnp.take_along_axis(wide, labels[:, None], axis=-1)[:, 0]
    return jnp.mean(jax.nn.logsumexp(wide, axis=-1) - chosen)


def model_step(
    workload: WorkloadSpec,
    optimiser: Optimiser,
    loss_of: Callable[[Tree, Tree], Any],
    outputs_of: Callable[[Tree, Tree, Any], Any],
) -> Callable[[Tree, Tree], tuple[Tree, Any]]:
    """The step of the workload's mode. `loss_of` gives the loss, or (loss, new running statistics)."""

    def train(state: Tree, batch: Tree) -> tuple[Tree, Any]:
        kept = {name: one for name, one in state.items() if name.startswith("s/")}

        def losses(parameters: Tree) -> tuple[Any, Tree]:
            result = loss_of(parameters, {**batch, **kept})
            return result if isinstance(result, tuple) else (result, {})

        (loss, statistics), gradients = jax.value_and_grad(losses, has_aux=True)(group(state, "p/"))
        new = {f"s/{name}": one for name, one in statistics.items()}
        return {**update(optimiser, state, gradients), **new}, loss

    def infer(state: Tree, batch: Tree) -> tuple[Tree, Any]:
        outputs = outputs_of(group(batch, "p/"), batch, state["step"]).astype(jnp.float32)
        loss = jnp.mean(jnp.square(outputs + state["outputs"]))
        return {"outputs": outputs, "step": state["step"] + 1}, loss

    return infer if workload.mode == "infer" else train


def update(optimiser: Optimiser, state: Tree, gradients: Tree) -> Tree:
    """New parameters and slots."""
    return updated(optimiser, state, gradients, _adam)


def _adam(adam: Adam, step: Any) -> Callable[..., Any]:
    number = step.astype(jnp.float32)
    # expm1 keeps 1 − decay^step exact to the last digits, which a power of 0.999 does not
    rate = adam.rate * jnp.sqrt(-jnp.expm1(number * math.log(adam.decay2))) / -jnp.expm1(number * math.log(adam.decay1))

    def change(gradient: Any, m: Any, v: Any) -> Any:
        m = adam.decay1 * m + (1 - adam.decay1) * gradient
        v = adam.decay2 * v + (1 - adam.decay2) * jnp.square(gradient)
        return rate * m / (jnp.sqrt(v) + adam.epsilon), m, v

    return change
