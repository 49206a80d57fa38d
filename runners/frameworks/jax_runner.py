"""JAX: `jax.jit` with a donated state. Importing this file imports JAX and creates no backend."""

from __future__ import annotations

import functools
import itertools
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import xla_bridge  # the only place that tells whether a backend exists without creating one

from runners.faults import TrialFault
from runners.frameworks.base import (
    FrameworkRunner,
    Lowering,
    PageStep,
    Program,
    Shapes,
    Tree,
    counting,
    shared_knobs,
)
from runners.frameworks.hiding import hide_gpus_from_tensorflow
from runners.frameworks.jax_work import traced_work
from runners.records import Quantity
from runners.specs import Scalar, TrialSpec

#: workload.precision → jax_default_matmul_precision.
MATMUL_PRECISION = {"float32": "highest", "tf32": "tensorfloat32", "bfloat16": "bfloat16"}

#: device.kind → JAX's name of the platform to lower for.
LOWERING_PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}


class Runner(FrameworkRunner):
    """One trial on JAX."""

    name = "jax"
    distributions = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "jax-cuda13-plugin")

    def has_backend(self) -> bool:
        return xla_bridge.backends_are_initialized()

    def open_device(self, spec: TrialSpec) -> None:
        """Take the first device of the platform that JAX_PLATFORMS names; JAX picks its backend here, not earlier."""
        _require_platforms(spec.device.kind)
        _require_no_calls(spec)
        if spec.device.kind == "gpu":
            hide_gpus_from_tensorflow()
        jax.config.update("jax_default_matmul_precision", MATMUL_PRECISION[spec.workload.precision])
        jax.config.update("jax_enable_compilation_cache", False)
        try:
            self._device = jax.devices()[0]
        except (RuntimeError, AssertionError) as error:  # an AssertionError without text: the platform has no plug-in
            text = str(error) or f"no plug-in for JAX_PLATFORMS={os.environ['JAX_PLATFORMS']} is installed"
            raise TrialFault(
                "unavailable", "device absent", f"JAX finds no {spec.device.kind}: {text}. Use a machine that has one."
            ) from error
        self._kind = spec.device.kind
        self._require_platform(self._device.platform)

    def knobs(self) -> dict[str, Scalar]:
        return {
            **shared_knobs(),
            "matmul_precision": jax.config.jax_default_matmul_precision,
            "compilation_cache": jax.config.jax_enable_compilation_cache,
            "enable_x64": jax.config.jax_enable_x64,
            "jax_platforms": os.environ["JAX_PLATFORMS"],
            "device_kind": self._device.device_kind,
        }

    def allocator_readings(self) -> dict[str, Scalar]:
        """`memory_stats()` with the inputs placed; None from an allocator that only passes through."""
        statistics = self._device.memory_stats()
        if statistics is None:
            return {"statistics": "none"}
        return {"statistics": "counted", **{key: int(value) for key, value in statistics.items()}}

    def place(self, array: np.ndarray, *, in_place: bool) -> jax.Array:  # noqa: ARG002 - JAX donates at the call instead
        placed = jax.device_put(array, self._device, may_alias=False)
        placed.block_until_ready()
        for device in placed.devices():
            self._require_platform(device.platform)
        return placed

    def compile(
        self,
        step: PageStep,
        state: Tree,
        batch: Tree,
        *,
        donate: bool,
        more_batches: Sequence[Tree] = (),
        tracing: str | None = None,
    ) -> Program:
        """Trace, lower and compile ahead of time, each timed; then call the jitted function, as a user would.

        The jitted function reuses this very executable (no second trace or compilation), and its dispatch is 1–4 µs a
        call shorter than the ahead-of-time object's, whose call goes through more Python.
        """
        if tracing not in (None, "each_shape"):
            raise TrialFault(
                "not_applicable",
                "tracing not offered",
                f"jax.jit traces once for every shape: workload.tracing={tracing} is TensorFlow's. Use each_shape.",
            )
        counted, traces = counting(step)
        # JAX's messages then name the page's own step
        functools.update_wrapper(counted, step, assigned=(), updated=())
        jitted = jax.jit(counted, donate_argnums=(0,) if donate else ())
        times = [time.monotonic()]
        traced = jitted.trace(state, batch)
        times.append(time.monotonic())
        lowered = traced.lower()
        times.append(time.monotonic())
        lowered.compile()
        times.append(time.monotonic())
        trace, lower, compiling = np.diff(times).tolist()
        batches = itertools.cycle([batch, *more_batches])

        def bound(state: Tree) -> tuple[Tree, Any]:
            return jitted(state, next(batches))

        names = [*(f"state[{name!r}]" for name in sorted(state)), "the loss"]
        given = [f"batch[{name!r}]" for name in sorted(batch)]
        # the first trace does not stand for steps of other shapes
        work = None if more_batches else traced_work(traced.jaxpr, given, names)
        cycle = 1 + len(more_batches)
        # the step is bound to no state: the next one is whatever it is given
        return Program(
            bound, traces, trace, lower, trace + lower + compiling, cycle=cycle, work=work, renew=lambda state: state
        )

    def lower(self, spec: TrialSpec, step: PageStep, state: Shapes, batch: Shapes) -> Lowering:
        """Trace with shapes, lower for the trial's platform; donation is written into the module."""
        jax.config.update("jax_default_matmul_precision", MATMUL_PRECISION[spec.workload.precision])
        counted, traces = counting(step)
        jitted = jax.jit(counted, donate_argnums=(0,) if spec.workload.donate else ())
        times = [time.monotonic()]
        traced = jitted.trace(_abstract(state), _abstract(batch))
        times.append(time.monotonic())
        text = traced.lower(lowering_platforms=(LOWERING_PLATFORMS[spec.device.kind],)).as_text()
        times.append(time.monotonic())
        trace_seconds, lower_seconds = np.diff(times).tolist()
        return Lowering(text.encode(), "stablehlo", "jax", trace_seconds, lower_seconds, traces())

    def build_fence(self) -> Callable[[Tree, Any], float]:
        @jax.jit
        def fence(state: Tree, loss: jax.Array) -> jax.Array:
            return loss + sum(leaf.ravel()[0].astype(jnp.float32) for leaf in state.values())

        return lambda state, loss: float(fence(state, loss))

    def synchronise(self, state: Tree, loss: Any) -> None:
        jax.block_until_ready((state, loss))

    def device_memory(self) -> dict[str, Quantity]:
        statistics = self._device.memory_stats() or {}
        # libtpu's allocator holds all of the device's memory and tells of it without the word pool
        whole = {"device_memory": _quantity(statistics, "bytes_limit")} if self._kind == "tpu" else {}
        return {
            "device_live_peak": _quantity(statistics, "peak_bytes_in_use"),
            "device_pool_peak": _quantity(statistics, "peak_pool_bytes"),
            "device_largest_free_block": _largest_free(statistics, always=self._kind == "tpu"),
            "device_fragmented_free": _fragmented(statistics),
            **whole,
        }

    def _require_platform(self, found: str) -> None:
        if found != self._kind:
            raise TrialFault(
                "unavailable",
                "wrong platform",
                f"the trial asks for device={self._kind}, but JAX put its arrays on {found!r}. "
                f"JAX_PLATFORMS is {os.environ['JAX_PLATFORMS']!r}: install the matching JAX plug-in, or choose "
                f"device={found}.",
            )


def _abstract(shapes: Shapes) -> Tree:
    return {name: jax.ShapeDtypeStruct(one.shape, one.dtype) for name, one in shapes.items()}


def _require_platforms(kind: str) -> None:
    """Without JAX_PLATFORMS an accelerator that fails to open means the CPU; that must not happen silently."""
    if not os.environ.get("JAX_PLATFORMS"):
        raise TrialFault(
            "config",
            "JAX_PLATFORMS not set",
            f"JAX_PLATFORMS is not set, so JAX could fall back to the CPU unseen. Set it for device={kind} "
            "(cpu, cuda or tpu) before the process starts.",
        )


def _require_no_calls(spec: TrialSpec) -> None:
    """JAX takes its allocation settings from the environment alone."""
    if spec.allocation.calls:
        raise TrialFault(
            "config", "unknown allocation call", f"JAX knows no allocation call {sorted(spec.allocation.calls)}"
        )


def _largest_free(statistics: dict[str, int], *, always: bool) -> Quantity:
    """Of a pool, or `always` (TPU): the CUDA driver's pool tells 0 here, which is no measurement."""
    return _quantity(statistics if always or "pool_bytes" in statistics else {}, "largest_free_block_bytes")


def _fragmented(statistics: dict[str, int]) -> Quantity:
    """Free memory of the pool that lies outside its largest free block."""
    keys = ("pool_bytes", "bytes_in_use", "largest_free_block_bytes")
    if not all(key in statistics for key in keys):
        return Quantity(None, "Device.memory_stats() tells of no pool")
    pool, used, largest = (statistics[key] for key in keys)
    return Quantity(
        pool - used - largest, "Device.memory_stats(): pool_bytes − bytes_in_use − largest_free_block_bytes", 0
    )


def _quantity(statistics: dict[str, int], key: str) -> Quantity:
    value = statistics.get(key)
    source = f"Device.memory_stats()[{key!r}]" if value is not None else f"Device.memory_stats() holds no {key}"
    return Quantity(value, source, 0 if value is not None else None)
