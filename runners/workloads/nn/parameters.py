"""The weights of layers, described: name → shape, dtype and first values. Names are paths, the layer's name first.

Kernels take the dtype that is asked for; what belongs to a normalisation stays float32, as statistics do everywhere.
"""

from __future__ import annotations

import numpy as np

from runners.workloads.page import Drawn, constant, normal

#: Standard deviation of the weights of transformers (BERT, GPT-2).
DEVIATION = 0.02

Parameters = dict[str, Drawn]


def dense(name: str, inputs: int, outputs: int, dtype: str, deviation: float = DEVIATION) -> Parameters:
    """x (…, inputs) → (…, outputs), with a bias."""
    return {
        f"{name}/kernel": normal((inputs, outputs), dtype, deviation),
        f"{name}/bias": constant((outputs,), dtype),
    }


def norm(name: str, width: int, scale: float = 1.0) -> Parameters:
    """Scale and bias of a layer or batch normalisation."""
    return {f"{name}/scale": constant((width,), "float32", scale), f"{name}/bias": constant((width,), "float32")}


def convolution(name: str, kernel: int, inputs: int, outputs: int, dtype: str) -> Parameters:
    """(kernel, kernel, inputs, outputs) without bias, variance 2 / (kernel² · outputs) (He et al. 2015, fan out)."""
    deviation = float(np.sqrt(2 / (kernel**2 * outputs)))
    return {f"{name}/kernel": normal((kernel, kernel, inputs, outputs), dtype, deviation)}


def transformer_block(name: str, width: int, dtype: str) -> Parameters:
    """Two normalisations, attention with one product for q, k and v, and an MLP of four times the width."""
    return {
        **norm(f"{name}/norm1", width),
        **dense(f"{name}/qkv", width, 3 * width, dtype),
        **dense(f"{name}/out", width, width, dtype),
        **norm(f"{name}/norm2", width),
        **dense(f"{name}/up", width, 4 * width, dtype),
        **dense(f"{name}/down", 4 * width, width, dtype),
    }


def transformer_flops(rows: int, sequence: int, width: int, layers: int) -> int:
    """FLOPs of the products in `layers` blocks, forward: 24·width² a token of dense ones, 4·sequence·width of scores.

    A causal mask saves nothing: the whole square of scores is computed.
    """
    return layers * rows * sequence * (24 * width * width + 4 * sequence * width)


def count(parameters: Parameters) -> int:
    """How many numbers."""
    return sum(int(np.prod(one.shape, dtype=np.int64)) for one in parameters.values())


def same_taps(size: int, taps: int, stride: int) -> int:
    """(output, tap) pairs of one axis that fall inside the input, for an output of ⌈size / stride⌉ (SAME)."""
    outputs = -(-size // stride)
    low = max((outputs - 1) * stride + taps - size, 0) // 2
    return sum(0 <= at * stride + tap - low < size for at in range(outputs) for tap in range(taps))
