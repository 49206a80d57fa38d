"""How often a StableHLO loop runs: its counter is evaluated, and nothing else of it.

Only what the condition depends on is looked at: scalar integers that come from constants. Anything else is unknown.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from jax.extend.mlir import ir

#: A loop that runs longer than this is no loop of a training step.
MOST_TRIPS = 1_000_000

BINARY: dict[str, Callable[[int, int], int]] = {
    "stablehlo.add": operator.add,
    "stablehlo.subtract": operator.sub,
    "stablehlo.multiply": operator.mul,
    "stablehlo.and": operator.and_,
    "stablehlo.or": operator.or_,
    "stablehlo.xor": operator.xor,
    "stablehlo.minimum": min,
    "stablehlo.maximum": max,
}
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "LT": operator.lt,
    "LE": operator.le,
    "GT": operator.gt,
    "GE": operator.ge,
    "EQ": operator.eq,
    "NE": operator.ne,
}
SAME = ("stablehlo.convert", "stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.optimization_barrier")


class UnknownValue(Exception):
    """A value that is no scalar integer out of constants."""


def trip_count(loop: Any, functions: dict[str, Any]) -> int:
    """How often the body of a `stablehlo.while` runs. Raises `UnknownValue` where that depends on data."""
    condition, body = (region.blocks[0] for region in loop.regions)
    state: dict[int, int] = {}
    pending = _arguments_used(condition, [condition.operations[-1].operands[0]], functions)
    while pending:
        index = pending.pop()
        if index not in state:
            state[index] = Evaluation({}, functions).value(loop.operands[index])
            pending |= _arguments_used(body, [body.operations[-1].operands[index]], functions)
    trips = 0
    while _evaluated(condition, state, functions, [0])[0]:
        state = _evaluated(body, state, functions, list(state))
        trips += 1
        if trips > MOST_TRIPS:
            raise UnknownValue(f"a loop of more than {MOST_TRIPS} runs")
    return trips


def _evaluated(block: Any, state: dict[int, int], functions: dict[str, Any], wanted: list[int]) -> dict[int, int]:
    """The block's results `wanted`, where its arguments have the values in `state`."""
    evaluation = Evaluation({block.arguments[index]: value for index, value in state.items()}, functions)
    results = _returned(block)
    return {index: evaluation.value(results[index]) for index in wanted}


def _returned(block: Any) -> Any:
    """What the block's last operation returns."""
    return block.operations[len(block.operations) - 1].operands


def _arguments_used(block: Any, values: list[Any], functions: dict[str, Any]) -> set[int]:
    """The block's arguments that these values depend on; of a call, only through what its function reads."""
    places = {argument: index for index, argument in enumerate(block.arguments)}
    found: set[int] = set()
    pending = list(values)
    while pending:
        value = pending.pop()
        if value in places:
            found.add(places[value])
        elif not isinstance(value.owner, ir.Block):
            pending.extend(_operands_read(value, value.owner.operation, functions))
    return found


def _operands_read(value: Any, operation: Any, functions: dict[str, Any]) -> list[Any]:
    """The operands that one result of an operation depends on."""
    if operation.name != "func.call":
        return list(operation.operands)
    callee, place = _called(value, operation, functions)
    used = _arguments_used(callee, [_returned(callee)[place]], functions)
    return [operation.operands[index] for index in used]


def _called(value: Any, operation: Any, functions: dict[str, Any]) -> tuple[Any, int]:
    """The block of the called function, and which of its results `value` is."""
    name = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
    return functions[name].regions[0].blocks[0], list(operation.results).index(value)


class Evaluation:
    """Values of scalar integers, on demand. `known` gives those of block arguments."""

    def __init__(self, known: dict[Any, int], functions: dict[str, Any]) -> None:
        self._known, self._functions = known, functions

    def value(self, value: Any) -> int:
        """The integer (a Boolean is 0 or 1). Raises `UnknownValue`."""
        if value not in self._known:
            if isinstance(value.owner, ir.Block):
                raise UnknownValue(f"the argument {value} depends on data")
            self._known[value] = self._result(value, getattr(value.owner, "operation", value.owner))
        return self._known[value]

    def _result(self, value: Any, operation: Any) -> int:
        name = operation.name
        if name == "stablehlo.constant":
            return _constant(operation.attributes["value"])
        if name in SAME:
            return self.value(operation.operands[0])
        if name in BINARY:
            return BINARY[name](*(self.value(one) for one in operation.operands))
        if name == "stablehlo.compare":
            direction = str(operation.attributes["comparison_direction"]).rpartition(" ")[2].rstrip(">")
            return int(COMPARE[direction](*(self.value(one) for one in operation.operands)))
        if name == "stablehlo.not":
            return 1 - self.value(operation.operands[0])
        if name == "stablehlo.select":
            chosen = 1 if self.value(operation.operands[0]) else 2
            return self.value(operation.operands[chosen])
        if name == "func.call":
            return self._call(value, operation)
        raise UnknownValue(f"{name} is not evaluated")

    def _call(self, value: Any, operation: Any) -> int:
        callee = self._functions[ir.FlatSymbolRefAttr(operation.attributes["callee"]).value].regions[0].blocks[0]
        place = list(operation.results).index(value)
        needed = _arguments_used(callee, [callee.operations[-1].operands[place]], self._functions)
        state = {index: self.value(operation.operands[index]) for index in needed}
        return _evaluated(callee, state, self._functions, [place])[place]


def _constant(attribute: Any) -> int:
    values = ir.DenseElementsAttr(attribute)
    if not values.is_splat:
        raise UnknownValue("a constant of several values")
    element = values.get_splat_value()
    if not isinstance(element, ir.IntegerAttr | ir.BoolAttr):
        raise UnknownValue(f"a constant {element}, which is no integer")
    return int(element.value)
