"""A model of keras.applications on Keras's JAX and TensorFlow back ends: the same weights, training step or inference.

shape  image, classes;  workload.model names the model (ResNet50, MobileNetV2, …)
batch  images (rows, image, image, 3);  train: labels (rows,) int32
loss   train: Keras's sparse categorical cross entropy, mean over rows;  infer: of the logits (rows, classes)
State, batch and losses of both modes: nn/model.py; a weight's name is its number in the model and its Keras path.

The model is Keras's own, called by Model.stateless_call, which both back ends have; its weights are numbers of ours, so
that both get the same bytes. The optimiser is momentum as in nn/model.py, because a Keras optimiser on TensorFlow wants
variables. parameters is Keras's count_params(), running statistics included: 25,636,712 for ResNet50 with 1000 classes.
There is no reference of our own: the back ends are compared with each other. While a model trains its dropout is off,
which its trials say: each back end would draw a mask of its own. What else draws random numbers is not applicable.
FLOPs are counted where every weight belongs to a convolution, a dense layer or a normalisation.

Ten training steps agree on both back ends within 1e-4 (tried: MobileNetV2, MobileNetV3Small, EfficientNetB0, ResNet50,
ResNet50V2 and NASNetMobile). Those of InceptionV3 and MobileNet do not: without shortcuts their gradients magnify
rounding, and the pair is marked.
"""

from __future__ import annotations

import functools
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runners.faults import TrialFault
from runners.specs import WorkloadSpec
from runners.workloads.nn import model
from runners.workloads.nn.parameters import same_taps
from runners.workloads.page import Arrays, Drawn, Problem, WorkCounts, constant, integers, normal

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")

CHANNELS = 3
OPTIMISER = model.Momentum(rate=2e-5)
CLOSING_SHARES = {"train": 0.0, "infer": 0.25}


def _keras() -> Any:
    """Keras on the back end of this process's framework; it is imported here, where the framework is known."""
    # a TensorFlow trial blocks the import of JAX; a JAX trial may hold TensorFlow, where a user's package imports it
    backend = "jax" if sys.modules.get("jax") is not None else "tensorflow"
    # Keras reads its back end from the environment when it is imported, and in no other way
    os.environ["KERAS_BACKEND"] = backend
    try:
        import keras
    except ModuleNotFoundError as error:
        raise TrialFault(
            "unavailable", "keras not installed", f"workload=keras needs the package {error.name}"
        ) from error
    if keras.config.backend() != backend:
        text = f"Keras was imported earlier with the back end {keras.config.backend()}, not {backend}"
        raise TrialFault("config", "keras on another back end", text)
    keras.config.set_image_data_format("channels_last")
    return keras


@functools.cache
def _built(name: str, image: int, classes: int, policy: str) -> Any:
    """The model without any weights: only their shapes are known. Raises `TrialFault` (config) for an unknown model."""
    keras = _keras()
    build = getattr(keras.applications, name, None)
    if not callable(build):
        known = [one for one in dir(keras.applications) if callable(getattr(keras.applications, one))]
        raise TrialFault("config", "unknown model", f"workload.model={name} is unknown; known are {', '.join(known)}")
    keras.backend.clear_session()
    keras.config.set_dtype_policy(policy)
    with keras.StatelessScope(initialize_variables=False):
        shape = (image, image, CHANNELS)
        try:
            return build(weights=None, input_shape=shape, classes=classes, classifier_activation=None)
        except ValueError as error:  # such as an image that is too small for the model
            text = f"workload.model={name} refuses workload.shape.image={image} or workload.shape.classes={classes}"
            raise TrialFault("config", "model refuses its shape", f"{text}: {error}") from error


def _model(workload: WorkloadSpec) -> Any:
    mixed = f"mixed_{workload.dtype}" if workload.mode == "train" and workload.dtype != "float32" else workload.dtype
    built = _built(workload.model or "", workload.shape["image"], workload.shape["classes"], mixed)
    if workload.mode != "infer":
        _take_chance_out(built, workload.model)
    return built


def _take_chance_out(built: Any, name: str | None) -> None:
    """Set the rate of every dropout to 0. Raises `TrialFault` (not_applicable) where other layers draw numbers."""
    drawing = [one for one in built._flatten_layers(include_self=False) if one._seed_generators]
    other = sorted({type(one).__name__ for one in drawing if not _is_dropout(one)})
    if other:
        raise TrialFault(
            "not_applicable",
            "random layers",
            f"workload.model={name} draws random numbers while it trains ({', '.join(other)}), other ones on each back "
            "end, so that no two steps would do the same work; use workload.mode=infer or a model without such layers",
        )
    for layer in drawing:
        layer.rate = 0.0


def _is_dropout(layer: Any) -> bool:
    return any(kind.__name__ == "Dropout" for kind in type(layer).__mro__)


def notes(workload: WorkloadSpec) -> list[str]:
    """What is not as in Keras's own training."""
    if workload.mode == "infer":
        return []
    count = sum(map(_is_dropout, _model(workload)._flatten_layers(include_self=False)))
    return [f"dropout is off in {count} layers: each back end would draw a mask of its own"] if count else []


def _named(variables: list[Any]) -> dict[str, Any]:
    return {f"{index:03} {variable.path}": variable for index, variable in enumerate(variables)}


def _kept(built: Any) -> dict[str, Any]:
    """The running statistics; no step reads the states of random generators or what a Normalization has adapted."""
    unread = {id(one.state) for layer in built._flatten_layers() for one in layer._seed_generators}
    for layer in built._flatten_layers():
        unread.update(id(one) for one in layer.non_trainable_variables if type(layer).__name__ == "Normalization")
    return _named([variable for variable in built.non_trainable_variables if id(variable) not in unread])


def _drawn(variable: Any, shares: Mapping[str, float]) -> Drawn:
    """He normal for kernels, 1 for scales and variances, 0 for the rest; `shares` scales what a path names."""
    shape, kind, share = tuple(variable.shape), variable.path.rpartition("/")[2], shares.get(variable.path, 1.0)
    if len(shape) > 1:
        # a depthwise kernel (height, width, channels, 1) sums over its window alone
        fan = math.prod(shape[:2] if len(shape) == 4 and shape[3] == 1 else shape[:-1])
        return normal(shape, variable.dtype, share * math.sqrt(2 / fan))
    return constant(shape, variable.dtype, share if kind in ("gamma", "moving_variance", "variance") else 0.0)


def _closing_shares(built: Any, mode: str | None) -> dict[str, float]:
    """What scales a residual branch at its end: a normalisation's scale or a convolution's kernel, path → share.

    While training it starts at 0 (Goyal et al. 2017): with 1 the gradients of a small batch grow from layer to layer,
    until two exact computations part within ten steps. For inference it is small, so that every branch counts.
    """
    share, depths = CLOSING_SHARES[mode or "train"], _depths(built)
    shares: dict[str, float] = {}
    for layer in built.operations:
        if type(layer).__name__ == "Add" and isinstance(layer.input, list):
            # the shortcut is the shorter way, whichever operand it is
            operands = sorted((tensor._keras_history.operation for tensor in layer.input), key=depths.__getitem__)
            for branch in (one for one in operands if depths[one] > depths[operands[0]]):
                if type(branch).__name__ in _CLOSING:
                    shares[getattr(branch, _CLOSING[type(branch).__name__]).path] = share
    return shares


#: Kind of layer → its variable that scales what it gives.
_CLOSING = {"BatchNormalization": "gamma", "Conv2D": "kernel"}


def _depths(built: Any) -> dict[Any, int]:
    """Operation → operations on the longest way to it from the input."""
    depths: dict[Any, int] = {}
    for operation in built.operations:  # in topological order
        before = [node.operation for node in operation._inbound_nodes[0].parent_nodes]
        depths[operation] = 1 + max((depths[one] for one in before), default=0)
    return depths


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Images standard normal, labels uniform."""
    built, shape, rows = _model(workload), workload.shape, workload.batch_size
    data = {"images": normal((rows, shape["image"], shape["image"], CHANNELS), workload.dtype)}
    if workload.mode != "infer":
        data["labels"] = integers((rows,), shape["classes"])
    shares = _closing_shares(built, workload.mode)
    weights, kept = (
        {name: _drawn(variable, shares) for name, variable in named.items()}
        for named in (_named(built.trainable_variables), _kept(built))
    )
    return model.problem(workload, seed, weights, data, OPTIMISER, (rows, shape["classes"]), kept)


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays | None, float]]:
    """None of our own."""
    return iter(())


def counts(workload: WorkloadSpec) -> WorkCounts:
    """parameters as Keras counts them; FLOPs of convolutions and dense layers, taps inside a layer's input only."""
    built = _model(workload)
    forward, first = _forward_flops(built, workload.batch_size)
    base = model.counts(workload, inputs(workload, 0), {}, forward or 0, first_flops=first)
    flops = None if forward is None else base.flops
    return WorkCounts(built.count_params(), flops, base.bytes, base.examples, flops)


def _forward_flops(built: Any, rows: int) -> tuple[int | None, int]:
    """FLOPs of all layers (None: one has weights that are not understood), and of the first one with a kernel."""
    found: list[int] = []
    for layer in built._flatten_layers(include_self=False):
        kernels = [variable.shape for variable in layer._trainable_variables if len(variable.shape) > 1]
        if not kernels:
            continue
        cost = _COSTS.get(type(layer).__name__)
        if cost is None:
            return None, 0
        found.append(rows * cost(layer))
    return sum(found), found[0] if found else 0


def _taps(layer: Any) -> int:
    """(output, tap) pairs of both axes that fall inside the layer's input."""
    sides = zip(layer.input.shape[1:3], layer.output.shape[1:3], layer.kernel_size, layer.strides, strict=True)
    same = layer.padding == "same"
    return math.prod(same_taps(size, taps, stride) if same else out * taps for size, out, taps, stride in sides)


def _convolution(layer: Any) -> int:
    return 2 * _taps(layer) * layer.kernel.shape[2] * layer.kernel.shape[3]


def _depthwise(layer: Any) -> int:
    return 2 * _taps(layer) * layer.kernel.shape[2] * layer.kernel.shape[3]


def _dense(layer: Any) -> int:
    return 2 * math.prod(layer.input.shape[1:-1]) * layer.kernel.shape[0] * layer.kernel.shape[1]


def _separable(layer: Any) -> int:
    """A depthwise convolution, and a 1 × 1 convolution of its output."""
    depthwise, pointwise = layer.depthwise_kernel.shape, layer.pointwise_kernel.shape
    pixels = math.prod(layer.output.shape[1:3])
    return 2 * _taps(layer) * depthwise[2] * depthwise[3] + 2 * pixels * pointwise[2] * pointwise[3]


_COSTS: dict[str, Callable[[Any], int]] = {
    "Conv2D": _convolution,
    "DepthwiseConv2D": _depthwise,
    "SeparableConv2D": _separable,
    "Dense": _dense,
}


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step on Keras's JAX back end."""
    from runners.frameworks import jax_layers as nn

    return nn.model_step(workload, OPTIMISER, *_functions(workload))


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step on Keras's TensorFlow back end."""
    from runners.frameworks import tf_layers as nn

    return nn.model_step(workload, OPTIMISER, *_functions(workload))


def _functions(workload: WorkloadSpec) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Loss and outputs in Keras's own operations, the same lines for both back ends."""
    keras = _keras()

    def call(p: dict[str, Any], batch: dict[str, Any], images: Any, *, training: bool) -> tuple[Any, dict[str, Any]]:
        built = _model(workload)
        weights = [p[name] for name in _named(built.trainable_variables)]
        names = {id(variable): name for name, variable in _kept(built).items()}
        values = [
            batch[f"s/{names[id(one)]}"] if id(one) in names else keras.ops.zeros(one.shape, one.dtype)
            for one in built.non_trainable_variables
        ]
        # within this scope the model's own weights stay unmade; the call would make them at its end
        with keras.StatelessScope(initialize_variables=False):
            logits, kept = built.stateless_call(weights, values, images, training=training)
        new = zip(built.non_trainable_variables, kept, strict=True)
        return keras.ops.cast(logits, "float32"), {names[id(one)]: value for one, value in new if id(one) in names}

    def loss_of(p: dict[str, Any], batch: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        logits, kept = call(p, batch, batch["images"], training=True)
        losses = keras.losses.sparse_categorical_crossentropy(batch["labels"], logits, from_logits=True)
        return keras.ops.mean(losses), kept

    def outputs_of(p: dict[str, Any], batch: dict[str, Any], step: Any) -> Any:
        offset = keras.ops.cast(keras.ops.cast(step % 8, "float32") / 8, workload.dtype)
        return call(p, batch, batch["images"] + offset, training=False)[0]

    return loss_of, outputs_of
