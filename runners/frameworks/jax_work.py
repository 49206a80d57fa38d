"""The work in a jaxpr: what its matrix products and convolutions cost, and which of them matter."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any

from jax.extend import core

from runners.work import TracedWork, product_flops, taps

#: Primitives that run one inner jaxpr once, on just their own operands.
CALLS = ("jit", "pjit", "closed_call", "custom_jvp_call", "custom_vjp_call", "remat", "checkpoint", "remat2")


def traced_work(closed: Any, batch: list[str], outputs: list[str]) -> TracedWork:
    """The work of a whole step; `batch` names its last arguments, `outputs` its results, in order."""
    jaxpr = closed.jaxpr
    varying = _varying(jaxpr, [True] * len(jaxpr.invars))
    constant = [name for name, atom in zip(outputs, jaxpr.outvars, strict=True) if not _is_in(atom, varying)]
    return TracedWork(
        written=_flops(jaxpr, None, None),
        needed=None
        if _has_open_loop(jaxpr)
        else _flops(jaxpr, [True] * len(jaxpr.invars), [True] * len(jaxpr.outvars)),
        constant=tuple(constant),
        ignored=_ignored(jaxpr, batch),
    )


def _ignored(jaxpr: Any, batch: list[str]) -> tuple[str, ...]:
    """The arrays of the batch that no result needs; a call is taken to need all that it is given."""
    needed = {atom for atom in jaxpr.outvars if isinstance(atom, core.Var)}
    for equation in reversed(jaxpr.eqns):
        if equation.effects or any(one in needed for one in equation.outvars):
            needed.update(atom for atom in equation.invars if isinstance(atom, core.Var))
    arguments = jaxpr.invars[len(jaxpr.invars) - len(batch) :]
    return tuple(name for name, one in zip(batch, arguments, strict=True) if one not in needed)


def _flops(jaxpr: Any, changing: list[bool] | None, wanted: list[bool] | None) -> int:
    """FLOPs of a jaxpr: all of them, or those that depend on a changing input and that a wanted output needs."""
    everything = changing is None or wanted is None
    varying = _varying(jaxpr, changing or [True] * len(jaxpr.invars))
    needed: set[Any] = set()
    if wanted is not None:
        needed = {atom for atom, want in zip(jaxpr.outvars, wanted, strict=True) if want and isinstance(atom, core.Var)}
    total = 0
    for equation in reversed(jaxpr.eqns):
        results = [one in needed for one in equation.outvars]
        if not everything and not any(results) and not equation.effects:
            continue
        needed.update(atom for atom in equation.invars if isinstance(atom, core.Var))
        depends = [_is_in(atom, varying) for atom in equation.invars]
        if everything:
            total += _equation(equation, None, None)
        elif any(depends):
            total += _equation(equation, depends, results)
    return total


def _equation(equation: Any, changing: list[bool] | None, wanted: list[bool] | None) -> int:
    name, parameters = equation.primitive.name, equation.params
    if name == "dot_general":
        (contracted, _), _ = parameters["dimension_numbers"]
        shape = equation.invars[0].aval.shape
        return product_flops(equation.outvars[0].aval.shape, [shape[axis] for axis in contracted])
    if name == "conv_general_dilated":
        return _convolution(equation)
    inner = list(_inner(parameters))
    if name in CALLS and len(inner) == 1 and len(inner[0].invars) == len(equation.invars):
        return _flops(inner[0], changing, wanted)
    if name == "cond":
        return max((_flops(branch, None, None) for branch in inner), default=0)
    # a loop: its body as often as it runs; what of the body matters is not told apart
    return parameters.get("length", 1) * sum(_flops(body, None, None) for body in inner)


def _convolution(equation: Any) -> int:
    p, (left, right) = equation.params, (operand.aval.shape for operand in equation.invars)
    numbers, output = p["dimension_numbers"], equation.outvars[0].aval.shape
    valid = [
        taps(left[at], right[tap], output[out], stride, low, holes=holes, spread=spread)
        for at, tap, out, stride, (low, _), holes, spread in zip(
            numbers.lhs_spec[2:],
            numbers.rhs_spec[2:],
            numbers.out_spec[2:],
            p["window_strides"],
            p["padding"],
            p["lhs_dilation"],
            p["rhs_dilation"],
            strict=True,
        )
    ]
    features, inputs = right[numbers.rhs_spec[0]], right[numbers.rhs_spec[1]]
    return 2 * output[numbers.out_spec[0]] * features * inputs * prod(valid)


def _has_open_loop(jaxpr: Any) -> bool:
    """Whether products stand in a loop whose length is not known before it runs."""
    for equation in jaxpr.eqns:
        inner = list(_inner(equation.params))
        if equation.primitive.name == "while" and any(_flops(body, None, None) for body in inner):
            return True
        if any(_has_open_loop(body) for body in inner):
            return True
    return False


def _inner(parameters: dict[str, Any]) -> Iterable[Any]:
    for value in parameters.values():
        for one in value if isinstance(value, tuple | list) else (value,):
            if isinstance(one, core.ClosedJaxpr):
                yield one.jaxpr
            elif isinstance(one, core.Jaxpr):
                yield one


def _varying(jaxpr: Any, changing: list[bool]) -> set[Any]:
    """The variables that depend on a changing input; an effect, such as a random draw from the host, counts as one."""
    varying = {variable for variable, changes in zip(jaxpr.invars, changing, strict=True) if changes}
    for equation in jaxpr.eqns:
        if equation.effects or any(_is_in(atom, varying) for atom in equation.invars):
            varying.update(equation.outvars)
    return varying


def _is_in(atom: Any, variables: set[Any]) -> bool:
    return isinstance(atom, core.Var) and atom in variables
