"""The matrix products and convolutions of a StableHLO module, counted: 2 FLOP for every multiply and add.

Only what a result depends on counts. A convolution counts the taps that fall on elements of its input, not those on
padding or on the holes of a dilated input. A loop's body counts as often as the loop runs, told by evaluating its
counter; a branch counts as its dearer side.
"""

from __future__ import annotations

import math
from typing import Any

from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from runners import work
from runners.compiled.counters import UnknownValue, trip_count


def matrix_flops(module: Any) -> int | None:
    """FLOP of one run of `main`; None where a loop's length depends on data."""
    functions = {one.name.value: one for one in module.body.operations if one.operation.name == "func.func"}
    try:
        return _of_block(functions["main"].regions[0].blocks[0], functions)
    except UnknownValue:
        return None


def _of_block(block: Any, functions: dict[str, Any]) -> int:
    return sum(_of_operation(one, functions) for one in _needed(block))


def _needed(block: Any) -> list[Any]:
    """The operations that a result of the block depends on. A lowered module may hold others: dead code, which every
    compiler drops."""
    own = {one.operation for one in block.operations}
    needed: set[Any] = set()
    pending = list(block.operations[len(block.operations) - 1].operands)
    while pending:
        owner = pending.pop().owner
        # what a region reads may be its own, or of a block further out: that one has counted it
        if not isinstance(owner, ir.Block) and owner.operation in own and owner.operation not in needed:
            needed.add(owner.operation)
            pending += _read(owner.operation)
    return list(needed)


def _read(operation: Any) -> list[Any]:
    """Everything an operation reads: its operands, and what its regions take from outside."""
    inside = [one.operation for region in operation.regions for block in region for one in block.operations]
    return [*operation.operands, *(value for one in inside for value in _read(one))]


def _of_operation(operation: Any, functions: dict[str, Any]) -> int:
    match operation.name:
        case "stablehlo.dot_general":
            return _dot_general(operation)
        case "stablehlo.dot":
            # the last axis of the left and the first of the right
            return work.product_flops(_shape(operation.results[0]), _shape(operation.operands[0])[-1:])
        case "stablehlo.convolution":
            return _convolution(operation)
        case "func.call":
            callee = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
            return _of_block(functions[callee].regions[0].blocks[0], functions)
        case "stablehlo.while":
            body = _of_block(operation.regions[1].blocks[0], functions)
            return body * trip_count(operation, functions) if body else 0
        case "stablehlo.case" | "stablehlo.if":
            return max(_of_block(region.blocks[0], functions) for region in operation.regions)
    return 0


def _shape(value: Any) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _dot_general(operation: Any) -> int:
    numbers = stablehlo.DotDimensionNumbers(operation.attributes["dot_dimension_numbers"])
    left = _shape(operation.operands[0])
    return work.product_flops(_shape(operation.results[0]), [left[axis] for axis in numbers.lhs_contracting_dimensions])


def _convolution(operation: Any) -> int:
    numbers = stablehlo.ConvDimensionNumbers(operation.attributes["dimension_numbers"])
    data, kernel, result = (_shape(one) for one in (*operation.operands, operation.results[0]))
    rank = len(numbers.input_spatial_dimensions)
    stride, padding = _numbers(operation, "window_strides", rank, 1), _padding(operation, rank)
    holes, spread = _numbers(operation, "lhs_dilation", rank, 1), _numbers(operation, "rhs_dilation", rank, 1)
    taps = math.prod(
        work.taps(
            data[numbers.input_spatial_dimensions[axis]],
            kernel[numbers.kernel_spatial_dimensions[axis]],
            result[numbers.output_spatial_dimensions[axis]],
            stride[axis],
            padding[axis],
            holes=holes[axis],
            spread=spread[axis],
        )
        for axis in range(rank)
    )
    groups = ir.IntegerAttr(operation.attributes["batch_group_count"]).value
    rows = data[numbers.input_batch_dimension] // groups
    return 2 * taps * rows * kernel[numbers.kernel_input_feature_dimension] * result[numbers.output_feature_dimension]


def _numbers(operation: Any, name: str, rank: int, default: int) -> list[int]:
    if name not in operation.attributes:
        return [default] * rank
    return list(ir.DenseI64ArrayAttr(operation.attributes[name]))


def _padding(operation: Any, rank: int) -> list[int]:
    """The padding before the input, along every axis."""
    if "padding" not in operation.attributes:
        return [0] * rank
    values = list(ir.DenseIntElementsAttr(operation.attributes["padding"]))
    return [values[2 * axis if len(values) == 2 * rank else 0] for axis in range(rank)]
