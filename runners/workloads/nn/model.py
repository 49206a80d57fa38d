"""A model's step, whatever the model: how its state and batch are made up, what its reference is, what it counts.

workload.mode=train
    state  p/NAME parameters (float32 whatever the dtype, as both communities' mixed precision keeps them), and the
           optimiser's own: m/NAME, v/NAME (Adam) or m/NAME (momentum), s/NAME running statistics, step () int32
    batch  the data
    loss   before the update

workload.mode=infer
    state  outputs (rows, …) float32, zero at first; step () int32
    batch  p/NAME parameters in the dtype, s/NAME running statistics, the data
    loss   mean of (outputs + the last step's outputs)²: one number that needs the whole state
    Every step sees other inputs, made of the batch's and the step's number, so that no two steps are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from runners.specs import WorkloadSpec
from runners.workloads.nn.parameters import Parameters, count
from runners.workloads.page import Arrays, Drawn, Problem, WorkCounts, constant, describe, in_float64, total_bytes


@dataclass(frozen=True)
class Adam:
    """Kingma and Ba 2015, with the bias corrections folded into the rate, as Keras and TensorFlow do.

    `epsilon` is Keras's. A gradient that is zero in exact arithmetic (of a key's bias, say) is rounding noise of 1e-9
    here: small against epsilon · 30, so its update is nearly nothing in either framework rather than ± a whole rate.
    """

    rate: float
    decay1: float = 0.9
    decay2: float = 0.999
    epsilon: float = 1e-7
    slots: tuple[str, ...] = ("m", "v")

    def gradient_share(self) -> float:
        """How much of the first step's gradient m holds after it."""
        return 1 - self.decay1


@dataclass(frozen=True)
class Momentum:
    """m ← decay · m + gradient; parameters ← parameters − rate · m."""

    rate: float
    decay: float = 0.9
    slots: tuple[str, ...] = ("m",)

    def gradient_share(self) -> float:
        """How much of the first step's gradient m holds after it."""
        return 1.0


Optimiser = Adam | Momentum


def parameter_dtype(workload: WorkloadSpec) -> str:
    """float32 while training, the workload's own for inference."""
    return workload.dtype if workload.mode == "infer" else "float32"


def problem(
    workload: WorkloadSpec,
    seed: int,
    parameters: Parameters,
    data: Mapping[str, Drawn],
    optimiser: Optimiser,
    outputs: tuple[int, ...],
    statistics: Parameters | None = None,
) -> Problem:
    """State and batch of the workload's mode; `outputs` is the shape of what inference gives."""
    named = {f"p/{name}": one for name, one in parameters.items()}
    kept = {f"s/{name}": one for name, one in (statistics or {}).items()}
    step = {"step": constant((), "int32")}
    if workload.mode == "infer":
        return describe(seed, {"outputs": constant(outputs, "float32"), **step}, {**named, **kept, **data})
    slots = {
        f"{slot}/{name}": constant(one.shape, "float32") for slot in optimiser.slots for name, one in parameters.items()
    }
    return describe(seed, {**named, **slots, **kept, **step}, data)


def group(arrays: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The entries under a prefix such as `p/`, without it."""
    return {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}


def updated(
    optimiser: Optimiser,
    state: Mapping[str, Any],
    gradients: Mapping[str, Any],
    adam: Callable[[Adam, Any], Callable[..., Any]],
) -> dict[str, Any]:
    """New step number, parameters and slots, in any framework's arrays; `adam` makes Adam's change for a step."""
    step = state["step"] + 1
    new = {"step": step}
    change = adam(optimiser, step) if isinstance(optimiser, Adam) else _momentum(optimiser)
    for name, gradient in gradients.items():
        slots = [state[f"{slot}/{name}"] for slot in optimiser.slots]
        delta, *slots = change(gradient, *slots)
        new[f"p/{name}"] = state[f"p/{name}"] - delta
        new.update({f"{slot}/{name}": value for slot, value in zip(optimiser.slots, slots, strict=True)})
    return new


def _momentum(momentum: Momentum) -> Callable[..., Any]:
    def change(gradient: Any, m: Any) -> Any:
        m = momentum.decay * m + gradient
        return momentum.rate * m, m

    return change


def reference(
    workload: WorkloadSpec,
    problem: Problem,
    loss_of: Callable[[Arrays, Arrays], float],
    outputs_of: Callable[[Arrays, Arrays, int], np.ndarray],
) -> Iterator[tuple[Arrays | None, float]]:
    """The forward loss of the first training step, or every inference step; in float64.

    `loss_of(parameters, batch)`, `outputs_of(parameters, batch, step)`; the batch holds the running statistics too.
    """
    batch, state = in_float64(problem.batch), in_float64(problem.state)
    if workload.mode != "infer":
        yield None, loss_of(group(state, "p/"), batch)
        return
    before, number = state["outputs"], int(state["step"])
    while True:
        outputs = outputs_of(group(batch, "p/"), batch, number)
        number += 1
        yield {"outputs": outputs, "step": np.asarray(number, np.int32)}, float(np.mean((outputs + before) ** 2))
        before = outputs


def counts(
    workload: WorkloadSpec, problem: Problem, parameters: Parameters, forward_flops: int, first_flops: int = 0
) -> WorkCounts:
    """Counts of a step from the FLOPs of its forward products.

    Training costs three times as much, for the gradients of both factors of every product; `first_flops` are those
    forward products whose left factor is data, which needs no gradient. bytes: state read and written, batch read.
    """
    flops = forward_flops if workload.mode == "infer" else 3 * forward_flops - first_flops
    return WorkCounts(
        parameters=count(parameters),
        flops=flops,
        bytes=2 * total_bytes(problem.state) + total_bytes(problem.batch),
        examples=workload.batch_size,
        matrix_flops=flops,
    )
