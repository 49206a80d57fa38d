"""What every workload page offers, and the few things that pages share.

A page is a module of plain functions; it compiles nothing and imports a framework only inside its steps:

    SUPPORTED_DTYPES            tuple of names out of float32, bfloat16, float16
    inputs(workload, seed)      → Problem: the first state and the batch, NumPy arrays of workload.dtype
    reference(problem)          → iterator over (state, loss) of successive steps in float64, in NumPy
    counts(workload)            → WorkCounts of one step, by formula
    jax_step(), tf_step()       → step(state, batch) → (new state, loss): pure; loss a float32 scalar

The state a step returns has the names, shapes and dtypes of the state it took, and stays bounded however often it is
applied: a trial may run 100,000 steps.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np

from runners.faults import TrialFault

Arrays = dict[str, np.ndarray]

#: bfloat16 is no NumPy dtype of its own; ml_dtypes, which JAX and TensorFlow both bring, adds it.
DTYPES = ("float32", "bfloat16", "float16")


@dataclass
class Problem:
    """The first state and the batch, by name: the same bytes for every framework."""

    state: Arrays
    batch: Arrays


@dataclass(frozen=True)
class WorkCounts:
    """What one step does, counted by hand.

    `parameters`: trained numbers. `flops`: additions and multiplications, counted apart. `bytes`: compulsory traffic,
    each input read once and each output written once, as if caches were perfect. `examples`: rows of the batch.
    """

    parameters: int
    flops: int
    bytes: int
    examples: int


def generator(seed: int) -> np.random.Generator:
    """The random numbers of a page: PCG64, so that a seed gives the same bytes on every machine."""
    return np.random.Generator(np.random.PCG64(seed))


def cast(array: np.ndarray, dtype: str) -> np.ndarray:
    """`array` in one of `DTYPES`."""
    if dtype == "bfloat16":
        import ml_dtypes

        return array.astype(ml_dtypes.bfloat16)
    return array.astype(dtype, copy=False)


def item_bytes(dtype: str) -> int:
    """Bytes of one element."""
    return 4 if dtype == "float32" else 2


def require_dtype(dtype: str, page: str, supported: tuple[str, ...]) -> None:
    """Raise `TrialFault` (config) where the page does not offer `dtype`."""
    if dtype not in supported:
        raise TrialFault(
            "config", "dtype not offered", f"{page} has no dtype {dtype!r}; it offers {', '.join(supported)}"
        )


def input_hash(problem: Problem) -> str:
    """16 hex digits of SHA-256 over names, dtypes, shapes and bytes of state and batch, names in order."""
    digest = hashlib.sha256()
    for side in (problem.state, problem.batch):
        for name, array in sorted(side.items()):
            digest.update(f"{name} {array.dtype} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()[:16]
