"""TensorFlow: one `tf.function` over variables. Importing this file imports TensorFlow and creates no context."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

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
from runners.probes import allocator_log
from runners.records import Quantity
from runners.specs import Scalar, TrialSpec

# TensorFlow imports JAX where it is installed: 130 MB that belong to the other framework. None makes that import fail,
# which TensorFlow takes for "not installed".
sys.modules["jax"] = None  # type: ignore[assignment]

import tensorflow as tf  # noqa: E402
from tensorflow.python.eager import context  # noqa: E402 - tells whether a context exists without creating one

from runners.frameworks.tf_work import traced_work  # noqa: E402

#: Sizes in bytes that tell pools apart: BFC serves both, the oneDNN pool only what is 256 KiB or more.
SMALL_BYTES, LARGE_BYTES = 1_000, 300_000


class Runner(FrameworkRunner):
    """One trial on TensorFlow; `framework.compile` is xla (`jit_compile=True`) or graph."""

    name = "tf"
    distributions = ("tensorflow", "tensorflow-cpu", "tensorflow-tpu", "keras")

    def has_backend(self) -> bool:
        existing = context.context_safe()
        return existing is not None and existing._initialized

    def open_device(self, spec: TrialSpec) -> None:
        """Precision, threads and allocation calls first: all of them are refused once the context exists."""
        self._jit_compile = {"xla": True, "graph": False}[spec.framework.compile]
        self._kind = spec.device.kind
        _set_precision(spec.workload.precision)
        if self._kind != "gpu":
            tf.config.set_visible_devices([], "GPU")
        physical = tf.config.list_physical_devices(self._kind.upper())
        if not physical:
            raise TrialFault(
                "unavailable",
                "device absent",
                f"TensorFlow {tf.__version__} lists no {self._kind.upper()}; it lists "
                f"{[device.name for device in tf.config.list_physical_devices()]}. Use a machine that has one, and a "
                "TensorFlow built for it.",
            )
        self._device = f"{self._kind.upper()}:0"
        _apply_calls(physical[0], dict(spec.allocation.calls))
        self._require_platform(tf.zeros(()).device)

    def knobs(self) -> dict[str, Scalar]:
        """0 threads means TensorFlow's own choice, which is one per CPU of the affinity mask."""
        return {
            **shared_knobs(),
            "tensor_float_32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "intra_op_threads": tf.config.threading.get_intra_op_parallelism_threads(),
            "inter_op_threads": tf.config.threading.get_inter_op_parallelism_threads(),
            "jit_compile": self._jit_compile,
            "onednn_environment": os.environ.get("TF_ENABLE_ONEDNN_OPTS"),
        }

    def allocator_readings(self) -> dict[str, Scalar]:
        """How the bytes in use rise as single buffers of known size are taken; `Empty` allocates exactly one buffer.

        Of float32: a GPU has no kernel of it for bytes (tensorflow/core/kernels/inplace_ops.cc).
        """
        before = self._statistics()
        if before is None:
            return {"statistics": "none"}
        held, current = [], [before["current"]]
        for size in (SMALL_BYTES, LARGE_BYTES):
            held.append(tf.raw_ops.Empty(shape=[size // 4], dtype=tf.float32))
            self._require_platform(held[-1].device)
            current.append(self._bytes_in_use())
        small, large = np.diff(current).tolist()
        del held
        tf.config.experimental.reset_memory_stats(self._device)
        counted = "counted" if current[-1] > 0 else "zero"
        return {"statistics": counted, "small_raised_bytes": small, "large_raised_bytes": large}

    def place(self, array: np.ndarray, *, in_place: bool) -> Any:
        placed = tf.Variable(array) if in_place else tf.constant(array)
        self._require_platform(placed.device)
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
        """Trace only; XLA and Grappler work inside the first call. A donated state is variables, updated in place."""
        counted, traces = counting(step)
        build = _in_place_step if donate else _returning_step
        options = {"autograph": False, "jit_compile": self._jit_compile, **_tracing_options(tracing, more_batches)}
        began = time.monotonic()
        bound, traced = build(counted, state, [batch, *more_batches], options)
        seconds = time.monotonic() - began
        _require_pure(traced, state)
        # without a fixed shape a graph tells no FLOPs
        given = [f"batch[{name!r}]" for name in sorted(batch)]
        work = None if more_batches else traced_work(traced, given, _result_names(traced, state, donate))
        cycle = 1 + len(more_batches)
        renew = partial(_refill, state) if donate else lambda state: state
        return Program(bound, traces, seconds, first_call_compiles=True, cycle=cycle, work=work, renew=renew)

    def lower(self, spec: TrialSpec, step: PageStep, state: Shapes, batch: Shapes) -> Lowering:
        """The HLO of a pure function of flat arguments. What lowers it is TensorFlow's bridge to XLA for the host, or,
        for a TPU and where tensorflow-tpu is what is installed, its bridge for TPUs (neither needs a device)."""
        _set_lowering_precision(spec.workload.precision, spec.device.kind)
        tf.config.set_visible_devices([], "GPU")
        counted, traces = counting(step)

        def flat(*leaves: tf.Tensor) -> list[tf.Tensor]:
            new_state, loss = counted(
                dict(zip(state, leaves, strict=False)), dict(zip(batch, leaves[len(state) :], strict=True))
            )
            return [*(new_state[name] for name in state), loss]

        times = [time.monotonic()]
        function = tf.function(flat, autograph=False, jit_compile=True)
        specs = [tf.TensorSpec(one.shape, one.dtype) for one in (*state.values(), *batch.values())]
        generate = function.experimental_get_compiler_ir(*specs)
        times.append(time.monotonic())
        own_bridge = spec.device.kind == "tpu" and "tensorflow-tpu" in self.versions()
        module = generate(stage="hlo_serialized", platform_name="TPU" if own_bridge else None)
        times.append(time.monotonic())
        trace_seconds, lower_seconds = np.diff(times).tolist()
        bridge = f"tensorflow {'TPU' if own_bridge else 'host'} bridge"
        return Lowering(module, "hlo", bridge, trace_seconds, lower_seconds, traces())

    def build_fence(self) -> Callable[[Tree, Any], float]:
        @tf.function(autograph=False, jit_compile=self._jit_compile)
        def fence(state: Tree, loss: tf.Tensor) -> tf.Tensor:
            return tf.add_n([loss, *(tf.cast(tf.reshape(leaf, [-1])[0], tf.float32) for leaf in state.values())])

        return lambda state, loss: float(fence(state, loss))

    def synchronise(self, state: Tree, loss: Any) -> None:  # noqa: ARG002 - TensorFlow waits for devices, not for arrays
        tf.test.experimental.sync_devices()

    def device_memory(self) -> dict[str, Quantity]:
        statistics = self._statistics()
        peak = statistics["peak"] if statistics else 0
        source = f"tf.config.experimental.get_memory_info({self._device!r})['peak']"
        live = Quantity(peak, source, 0) if peak else Quantity(None, f"{source} is not collected by this allocator")
        return {
            "device_live_peak": live,
            **_pool(allocator_log.own_log()),
        }

    def _statistics(self) -> dict[str, int] | None:
        """Bytes in use now and at most, or None where this allocator has no statistics (a ValueError)."""
        try:
            return tf.config.experimental.get_memory_info(self._device)
        except ValueError:
            return None

    def _bytes_in_use(self) -> int:
        return (self._statistics() or {"current": 0})["current"]

    def _require_platform(self, found: str) -> None:
        if not found.endswith(self._device):
            raise TrialFault(
                "unavailable",
                "wrong platform",
                f"the trial asks for device={self._kind}, but TensorFlow put a tensor on {found!r}. "
                "Install a TensorFlow built for that device, or choose another device.",
            )


def _set_precision(precision: str) -> None:
    if precision == "bfloat16":
        raise TrialFault(
            "not_applicable",
            "precision not offered",
            "TensorFlow has no bfloat16 precision for float32 products; use workload.precision=float32 or tf32.",
        )
    tf.config.experimental.enable_tensor_float_32_execution(precision == "tf32")


def _set_lowering_precision(precision: str, kind: str) -> None:
    """XLA's precision of float32 products: highest where TensorFloat-32 is off, the platform's default where it is on.

    A TPU's default is one bfloat16 pass, so there `bfloat16` is what the switch means.
    """
    if kind == "tpu" and precision == "bfloat16":
        tf.config.experimental.enable_tensor_float_32_execution(True)
    else:
        _set_precision(precision)


def _apply_calls(device: Any, calls: dict[str, Scalar]) -> None:
    """The allocation mode's API settings, all before the context exists.

    `memory_growth` (bool), `memory_limit_mib` (MiB, reserved whole unless growth is on), and `gpu_memory_fraction`, a
    share of total memory that asks for managed memory above 1. The last is a setting of the v1 ConfigProto only; the
    context merges that proto into its own (tensorflow/python/eager/context.py, Context.config).
    """
    growth, limit_mib = calls.pop("memory_growth", None), calls.pop("memory_limit_mib", None)
    fraction = calls.pop("gpu_memory_fraction", None)
    if calls:
        raise TrialFault("config", "unknown allocation call", f"TensorFlow knows no allocation call {sorted(calls)}")
    try:
        if growth is not None:
            tf.config.experimental.set_memory_growth(device, bool(growth))
        if limit_mib is not None:
            limits = [tf.config.LogicalDeviceConfiguration(memory_limit=int(limit_mib))]
            tf.config.set_logical_device_configuration(device, limits)
        if fraction is not None:
            options = tf.compat.v1.GPUOptions(per_process_gpu_memory_fraction=float(fraction))
            context.context()._config = tf.compat.v1.ConfigProto(gpu_options=options)
    except ValueError as error:
        raise TrialFault("not_applicable", "allocation call refused", f"{device.name}: {error}") from error


def _pool(log: str) -> dict[str, Quantity]:
    """The BFC pool, as far as its allocator has logged it: its regions, and a map where an allocation failed."""
    silent = "TensorFlow does not tell its pool; its log does where the allocator is BFC and logs its regions"
    regions, largest = allocator_log.region_bytes(log), allocator_log.largest_free_bytes(log)
    pool = Quantity(sum(regions), "regions logged by bfc_allocator.cc", 0) if regions else Quantity(None, silent)
    unmapped = "TensorFlow tells free blocks only where an allocation fails, in the map that its log then holds"
    free = Quantity(largest, "map logged by bfc_allocator.cc", 0) if largest is not None else Quantity(None, unmapped)
    return {
        "device_pool_peak": pool,
        "device_largest_free_block": free,
        "device_fragmented_free": Quantity(None, unmapped),
    }


def _require_pure(traced: Any, state: Tree) -> None:
    """Raise `TrialFault` (config) where a step holds variables that are not its state: the other framework has none."""
    own = {id(one) for one in state.values()}
    foreign = [one.name for one in traced.variables if id(one) not in own]
    if foreign:
        raise TrialFault(
            "config",
            "step holds variables",
            f"the step uses a tf.Variable of its own ({', '.join(foreign)}). What changes from step to step belongs "
            "into the state that the step takes and returns, what does not into the batch.",
        )


def _tracing_options(tracing: str | None, batches: Sequence[Tree]) -> dict[str, Any]:
    """What `tf.function` is told of shapes that change: nothing, to relax them by itself, or the signature."""
    if tracing == "reduce_retracing":
        return {"reduce_retracing": True}
    if tracing == "signature":
        return {"signature": {name: _relaxed([batch[name] for batch in batches]) for name in batches[0]}}
    return {}


def _relaxed(arrays: list[Any]) -> tf.TensorSpec:
    """The shape that all arrays have, None where they differ."""
    shapes = zip(*(array.shape.as_list() for array in arrays), strict=True)
    return tf.TensorSpec([sizes[0] if len(set(sizes)) == 1 else None for sizes in shapes], arrays[0].dtype)


def _function(body: Callable[..., Any], options: dict[str, Any], *before: Any) -> Any:
    """`tf.function` of `body`, whose last argument is the batch and whose others are like `before`."""
    signature = options.pop("signature", None)
    if signature is not None:
        options["input_signature"] = [
            *(tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), one) for one in before),
            signature,
        ]
    return tf.function(body, **options)


def _in_place_step(step: PageStep, variables: Tree, batches: list[Tree], options: dict[str, Any]) -> tuple[Any, Any]:
    def update(batch: Tree) -> tf.Tensor:
        new_state, loss = step({name: variable.read_value() for name, variable in variables.items()}, batch)
        for name, variable in variables.items():
            variable.assign(new_state[name], read_value=False)
        return loss

    compiled, turns = _function(update, options), itertools.cycle(batches)
    traced = compiled.get_concrete_function(batches[0])
    return (lambda state: (state, compiled(next(turns)))), traced


def _refill(variables: Tree, state: Tree) -> Tree:
    """Put the arrays of `state` into the variables that a step is bound to; with {}, nothing: their memory is freed.

    A variable's own `assign` refuses another shape, so the operation below it is called.
    """
    for name, variable in variables.items():
        value = state[name].read_value() if state else tf.zeros([0], variable.dtype)
        tf.raw_ops.AssignVariableOp(resource=variable.handle, value=value, validate_shape=False)
    return variables if state else {}


def _returning_step(step: PageStep, state: Tree, batches: list[Tree], options: dict[str, Any]) -> tuple[Any, Any]:
    compiled, turns = _function(step, options, state), itertools.cycle(batches)
    traced = compiled.get_concrete_function(state, batches[0])
    return (lambda state: compiled(state, next(turns))), traced


def _result_names(traced: Any, state: Tree, donate: bool) -> list[str]:
    """The flat results of a traced step in order: a dict's are sorted by name."""
    names = [] if donate else [f"state[{name!r}]" for name in sorted(state)]
    return [*names, "the loss"][: len(traced.graph.outputs)]
