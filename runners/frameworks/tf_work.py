"""The work in a function's graph: what its matrix products and convolutions cost, and which of them matter."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import tensorflow as tf

from runners.work import TracedWork, product_flops, taps

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
LOOPS = ("While", "StatelessWhile")


def traced_work(function: Any, batch: list[str], outputs: list[str]) -> TracedWork:
    """The work of a whole step; `batch` names its last arguments, `outputs` its flat results (variables that it assigns
    are not named), in order."""
    graph = function.graph
    varying = _varying(graph)
    constant = [name for name, one in zip(outputs, graph.outputs, strict=True) if one.op not in varying]
    assigned = [operation for operation in graph.get_operations() if operation.type == "AssignVariableOp"]
    constant += [
        f"state {graph_input.name}"
        for graph_input, value in (operation.inputs for operation in assigned)
        if value.op not in varying
    ]
    written = sum(_operation(operation) or 0 for operation in graph.get_operations())
    reached = _reached(graph)
    needed = _needed(reached, varying)
    # a concrete function's own arguments stand before what it has captured
    arguments = graph.inputs[: len(graph.inputs) - len(graph.captures)]
    given = zip(batch, arguments[len(arguments) - len(batch) :], strict=True)
    return TracedWork(written, needed, tuple(constant), tuple(name for name, one in given if one.op not in reached))


def _reached(graph: Any) -> set[Any]:
    """The operations on which an output, or anything with an effect, depends."""
    pending = [
        *(one.op for one in graph.outputs),
        *(one for one in graph.get_operations() if one.type == "AssignVariableOp"),
    ]
    reached: set[Any] = set()
    while pending:
        operation = pending.pop()
        if operation not in reached:
            reached.add(operation)
            pending += [*(one.op for one in operation.inputs), *operation.control_inputs]
    return reached


def _needed(reached: set[Any], varying: set[Any]) -> int | None:
    """FLOPs of the operations that depend on an input and on which something that counts depends."""
    flops = [_operation(operation) for operation in reached & varying]
    known = [one for one in flops if one is not None]
    return sum(known) if len(known) == len(flops) else None


def _varying(graph: Any) -> set[Any]:
    """The operations that depend on an input: an argument, or anything that the function has captured."""
    varying: set[Any] = set()
    for operation in graph.get_operations():  # in topological order: an operation is made after its inputs
        if operation.type == "Placeholder" or any(one.op in varying for one in operation.inputs):
            varying.add(operation)
    return varying


def _operation(operation: Any) -> int | None:
    """FLOPs of one operation; None for products in a loop whose length the graph does not tell."""
    kind = operation.type
    if kind in _COSTS:
        return _COSTS[kind](operation)
    if kind in CALLS:
        inner = operation.graph._get_function(operation.get_attr("f").name).graph
        return _needed(_reached(inner), _varying(inner))
    if kind in LOOPS:
        return _loop(operation)
    return 0


def _loop(operation: Any) -> int | None:
    """A loop's body, as often as `maximum_iterations` says; the loop keeps that number as its second input."""
    body = operation.graph._get_function(operation.get_attr("body").name).graph
    flops = sum(_operation(inner) or 0 for inner in body.get_operations())
    length = tf.get_static_value(operation.inputs[1]) if len(operation.inputs) > 1 else None
    if flops == 0:
        return 0
    return flops * int(length) if length is not None and length.shape == () and length > 0 else None


def _product(operation: Any) -> int:
    left = operation.inputs[0].shape.as_list()
    output = operation.outputs[0].shape.as_list()
    transposed = next(operation.get_attr(name) for name in ("transpose_a", "adj_x") if _has(operation, name))
    return product_flops(output, [left[-2] if transposed else left[-1]])


def _has(operation: Any, attribute: str) -> bool:
    return attribute in operation.node_def.attr


def _einsum(operation: Any) -> int:
    terms = operation.get_attr("equation").decode().split("->")[0].split(",")
    lengths: dict[str, int] = {}
    for term, operand in zip(terms, operation.inputs, strict=True):
        lengths.update(zip(term, operand.shape.as_list(), strict=True))
    return 2 * prod(lengths.values()) if len(terms) > 1 else 0


def _convolution(images: Callable[[Any], Any], kernel: Callable[[Any], Any], results: Callable[[Any], Any]) -> Any:
    """The cost of a convolution or one of its gradients: the taps are the forward pass's in all three."""

    def cost(operation: Any) -> int:
        shape, window, output = (side(operation).as_list() for side in (images, kernel, results))
        axes = (1, 2) if operation.get_attr("data_format") == b"NHWC" else (2, 3)
        strides, spreads = operation.get_attr("strides"), operation.get_attr("dilations")
        valid = [
            taps(shape[axis], window[at], output[axis], strides[axis], _low(operation, axis, window[at]), spread=spread)
            for at, axis in enumerate(axes)
            for spread in (spreads[axis],)
        ]
        depthwise = operation.type.startswith("Depthwise")
        return 2 * output[0] * prod(valid) * window[2] * window[3] if not depthwise else _depthwise(output, valid, axes)

    def _low(operation: Any, axis: int, window: int) -> int:
        padding = operation.get_attr("padding")
        if padding == b"EXPLICIT":
            return operation.get_attr("explicit_paddings")[2 * axis]
        if padding == b"VALID":
            return 0
        size, output = images(operation).as_list()[axis], results(operation).as_list()[axis]
        stride, spread = operation.get_attr("strides")[axis], operation.get_attr("dilations")[axis]
        return max((output - 1) * stride + (window - 1) * spread + 1 - size, 0) // 2

    return cost


def _depthwise(output: list[int], valid: list[int], axes: tuple[int, int]) -> int:
    features = next(length for axis, length in enumerate(output) if axis not in (0, *axes))
    return 2 * output[0] * features * prod(valid)


def _shape_of(index: int) -> Callable[[Any], Any]:
    return lambda operation: operation.inputs[index].shape


def _output(operation: Any) -> Any:
    return operation.outputs[0].shape


_FORWARD = _convolution(_shape_of(0), _shape_of(1), _output)
_TO_IMAGES = _convolution(_output, _shape_of(1), _shape_of(2))
_TO_KERNEL = _convolution(_shape_of(0), _output, _shape_of(2))
_COSTS: dict[str, Callable[[Any], int]] = {
    **dict.fromkeys(("MatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _product),
    "Einsum": _einsum,
    **dict.fromkeys(("Conv2D", "DepthwiseConv2dNative"), _FORWARD),
    **dict.fromkeys(("Conv2DBackpropInput", "DepthwiseConv2dNativeBackpropInput"), _TO_IMAGES),
    **dict.fromkeys(("Conv2DBackpropFilter", "DepthwiseConv2dNativeBackpropFilter"), _TO_KERNEL),
}
