"""An array that is asked for on the CPU while an accelerator is the default device: what reaches the accelerator.

shape  kib: the size of the array
state  mark () float32: an element of the array, put on the default device
loss   mark

Every step asks for one array in each framework's documented way: `jnp.full(..., device=cpu)`, `with tf.device("CPU")`.
Nothing else of that size exists, so device_live_peak is what reached the accelerator: some hundred bytes, or the whole
array where it was made there first. It has no meaning with device=cpu.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from runners.faults import TrialFault
from runners.specs import FrameworkSpec, WorkloadSpec
from runners.workloads.page import Arrays, Problem, WorkCounts, constant, describe, in_float64, item_bytes

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")
#: Where an array is made is a matter of single calls.
COMPILED = False


def applicable(workload: WorkloadSpec, framework: FrameworkSpec, device: str) -> str | None:
    """Not on the CPU: there is no other device to reach."""
    if device == "cpu":
        return (
            "workload=placement asks what reaches an accelerator; with device=cpu there is none. Use device=gpu or tpu."
        )
    return None


def _elements(workload: WorkloadSpec) -> int:
    return workload.shape["kib"] * 1024 // item_bytes(workload.dtype)


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Nothing but a zero."""
    return describe(seed, {"mark": constant((), "float32")})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The mark doubles its distance from 8 … and starts again: 1, 2, 4, 8, 1, …"""
    mark = float(in_float64(problem.state)["mark"])
    while True:
        mark = _next(mark)
        yield {}, mark


def _next(mark: float) -> float:
    return mark * 2 if 0 < mark < 8 else 1.0


def counts(workload: WorkloadSpec) -> WorkCounts:
    """bytes: the array, written once."""
    written = _elements(workload) * item_bytes(workload.dtype)
    return WorkCounts(parameters=0, flops=0, bytes=written, examples=1, matrix_flops=0)


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        try:
            cpu = jax.devices("cpu")[0]
        except RuntimeError as error:
            text = f"JAX has no CPU beside the accelerator ({error}); JAX_PLATFORMS must list cpu last, as in cuda,cpu"
            raise TrialFault("config", "no CPU beside the accelerator", text) from error
        block = jnp.full((_elements(workload),), _next(float(state["mark"])), workload.dtype, device=cpu)
        mark = jnp.float32(float(block[0]))
        return {"mark": mark}, mark

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        with tf.device("CPU:0"):
            value = tf.constant(_next(float(state["mark"])), workload.dtype)
            block = tf.fill([_elements(workload)], value)
        mark = tf.constant(float(block[0]), tf.float32)
        return {"mark": mark}, mark

    return step
