"""The same layers in NumPy and float64, forward only: what the frameworks' losses are compared with."""

from __future__ import annotations

import numpy as np

from runners.workloads.page import Arrays


def dense(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    """x (…, inputs) → (…, outputs)."""
    return x @ p[f"{name}/kernel"] + p[f"{name}/bias"]


def layer_norm(p: Arrays, name: str, x: np.ndarray, epsilon: float) -> np.ndarray:
    """Over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + epsilon) * p[f"{name}/scale"] + p[f"{name}/bias"]


def softmax(x: np.ndarray) -> np.ndarray:
    """Over the last axis."""
    exponentials = np.exp(x - x.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def attention(p: Arrays, name: str, x: np.ndarray, heads: int, *, causal: bool) -> np.ndarray:
    """Self-attention over x (rows, sequence, width), head by head."""
    length, width = x.shape[1:]
    q, k, v = np.split(dense(p, f"{name}/qkv", x), 3, axis=-1)
    mixed = np.empty_like(x)
    for columns in np.split(np.arange(width), heads):
        scores = q[..., columns] @ k[..., columns].swapaxes(1, 2) / np.sqrt(len(columns))
        if causal:
            scores = np.where(np.tri(length, dtype=bool), scores, -np.inf)
        mixed[..., columns] = softmax(scores) @ v[..., columns]
    return dense(p, f"{name}/out", mixed)


def gelu(x: np.ndarray) -> np.ndarray:
    """In its tanh form (Hendrycks and Gimpel 2016)."""
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def mlp(p: Arrays, name: str, x: np.ndarray) -> np.ndarray:
    """Up to four times the width, GELU, and down."""
    return dense(p, f"{name}/down", gelu(dense(p, f"{name}/up", x)))


def cross_entropy(logits: np.ndarray, labels: np.ndarray) -> float:
    """Mean over rows of −log softmax(logits)[label]."""
    chosen = softmax(logits)[np.arange(len(labels)), labels]
    return float(-np.log(chosen).mean())


def convolution(x: np.ndarray, kernel: np.ndarray, stride: int) -> np.ndarray:
    """x (rows, height, width, inputs), kernel (taps, taps, inputs, outputs), output of ⌈size / stride⌉ (SAME)."""
    taps, size = kernel.shape[0], x.shape[1]
    out = -(-size // stride)
    total = max((out - 1) * stride + taps - size, 0)
    low, high = total // 2, total - total // 2
    padded = np.pad(x, ((0, 0), (low, high), (low, high), (0, 0)))
    result = np.zeros((x.shape[0], out, out, kernel.shape[3]))
    last = (out - 1) * stride + 1
    for i in range(taps):
        for j in range(taps):
            result += padded[:, i : i + last : stride, j : j + last : stride] @ kernel[i, j]
    return result


def largest(x: np.ndarray, taps: int, stride: int) -> np.ndarray:
    """The largest element of every window (SAME, padding never wins); x (rows, height, width, features)."""
    out = -(-x.shape[1] // stride)
    total = max((out - 1) * stride + taps - x.shape[1], 0)
    low, high = total // 2, total - total // 2
    padded = np.pad(x, ((0, 0), (low, high), (low, high), (0, 0)), constant_values=-np.inf)
    last = (out - 1) * stride + 1
    windows = [padded[:, i : i + last : stride, j : j + last : stride] for i in range(taps) for j in range(taps)]
    return np.max(windows, axis=0)
