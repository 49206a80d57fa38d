"""The update of Adam over many tensors: bound by memory; donation saves a second copy of everything.

state  p/NAME, m/NAME, v/NAME for `tensors` kernels (width, width) and as many biases (width,);  step () int32
batch  t/NAME: where the parameters are pulled to, so that the gradient is p − t
loss   mean over kernels of the mean of the new p² in their first row   (float32)

All float32: optimisers keep their state so whatever the dtype of a model. The update is the one of nn/model.py, tensor
by tensor, as optax.adam and keras.optimizers.Adam write it; fusing it is left to the compiler. The loss reads one row
of a kernel only, to add nothing to the traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn import model
from runners.workloads.page import (
    Arrays,
    Drawn,
    Problem,
    WorkCounts,
    constant,
    describe,
    in_float64,
    normal,
    total_bytes,
)

SUPPORTED_DTYPES = ("float32",)

OPTIMISER = model.Adam(rate=2.0**-5)


def _tensors(workload: WorkloadSpec) -> dict[str, tuple[int, ...]]:
    """The shape of every tensor by name."""
    width = workload.shape["width"]
    found: dict[str, tuple[int, ...]] = {}
    for index in range(workload.shape["tensors"]):
        found[f"kernel{index:03}"] = (width, width)
        found[f"bias{index:03}"] = (width,)
    return found


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Parameters and targets standard normal, moments 0."""
    tensors = _tensors(workload)
    state: dict[str, Drawn] = {"step": constant((), "int32")}
    for name, shape in tensors.items():
        state[f"p/{name}"] = normal(shape, "float32")
        state |= {f"{slot}/{name}": constant(shape, "float32") for slot in OPTIMISER.slots}
    return describe(seed, state, {f"t/{name}": normal(shape, "float32") for name, shape in tensors.items()})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The steps in float64."""
    adam, state, batch = OPTIMISER, in_float64(problem.state), in_float64(problem.batch)
    while True:
        step = int(state["step"]) + 1
        rate = adam.rate * np.sqrt(1 - adam.decay2**step) / (1 - adam.decay1**step)
        new: Arrays = {"step": np.asarray(step, np.int32)}
        losses = []
        for name in _tensors(workload):
            gradient = state[f"p/{name}"] - batch[f"t/{name}"]
            m = adam.decay1 * state[f"m/{name}"] + (1 - adam.decay1) * gradient
            v = adam.decay2 * state[f"v/{name}"] + (1 - adam.decay2) * gradient**2
            p = state[f"p/{name}"] - rate * m / (np.sqrt(v) + adam.epsilon)
            new |= {f"p/{name}": p, f"m/{name}": m, f"v/{name}": v}
            if name.startswith("kernel"):
                losses.append(np.mean(p[0] ** 2))
        state = new
        yield state, float(np.mean(losses))


def counts(workload: WorkloadSpec) -> WorkCounts:
    """flops: 13 an element (gradient 1, m 3, v 4, the update 5). bytes: p, m, v read and written, t read."""
    problem = inputs(workload, 0)
    elements = sum(int(np.prod(shape)) for shape in _tensors(workload).values())
    return WorkCounts(
        parameters=elements,
        flops=13 * elements,
        bytes=2 * total_bytes(problem.state) + total_bytes(problem.batch),
        examples=workload.batch_size,
        matrix_flops=0,
    )


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax.numpy as jnp

    from runners.frameworks import jax_layers as nn

    names = _tensors(workload)

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        gradients = {name: state[f"p/{name}"] - batch[f"t/{name}"] for name in names}
        new = nn.update(OPTIMISER, state, gradients)
        rows = [new[f"p/{name}"][0] for name in names if name.startswith("kernel")]
        return new, jnp.mean(jnp.square(jnp.stack(rows)))

    return step


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    from runners.frameworks import tf_layers as nn

    names = _tensors(workload)

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        gradients = {name: state[f"p/{name}"] - batch[f"t/{name}"] for name in names}
        new = nn.update(OPTIMISER, state, gradients)
        rows = [new[f"p/{name}"][0] for name in names if name.startswith("kernel")]
        return new, tf.reduce_mean(tf.square(tf.stack(rows)))

    return step
