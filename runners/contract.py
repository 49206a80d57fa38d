"""The contract of a workload page: what a module must hold to be one, and what its step must return.

Both are checked for every page, so that a mistake in a user's own file is named instead of ending in a framework's
traceback. What a page must offer is written down in runners/workloads/page.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from runners.faults import mistake
from runners.specs import WorkloadSpec
from runners.workloads.page import Drawn, Problem, WorkCounts

Step = Callable[[dict[str, Any], dict[str, Any]], tuple[dict[str, Any], Any]]


def builder(page: ModuleType, name: str) -> Callable[[WorkloadSpec], Any] | None:
    """The page's function `name`, which builds a step; None where there is none. `TrialFault` for a wrong signature."""
    build = getattr(page, name, None)
    if build is None:
        return None
    try:
        inspect.signature(build).bind(None)
    except (TypeError, ValueError) as error:
        text = f"{_where(page, name)} must take the workload alone and return the step, a function of (state, batch)"
        raise mistake("wrong signature", f"{text} ({error})") from error
    return build


def problem_of(page: ModuleType, workload: WorkloadSpec, seed: int) -> Problem:
    """The page's inputs, looked through. Raises `TrialFault` (config) for what no framework could be given alike."""
    found, where = page.inputs(workload, seed), _where(page, "inputs")
    if not isinstance(found, Problem):
        raise mistake("no problem", f"{where}(workload, seed) returned {_kind(found)}; it must return a Problem")
    if not found.state:
        raise mistake(
            "no state", f"{where}: the state is empty; a step takes what the last one gave, or nothing chains"
        )
    for side, arrays in (("state", found.state), *(("batch", batch) for batch in found.batches)):
        if not isinstance(arrays, Mapping) or not all(isinstance(name, str) for name in arrays):
            text = f"{where}: the {side} is {_kind(arrays)}; it must be a dict of arrays, their names strings"
            raise mistake("wrong array", text)
        for name, array in arrays.items():
            problem = _array_problem(array)
            if problem:
                raise mistake("wrong array", f"{where}: {side}[{name!r}] is {problem}")
    return found


def _array_problem(array: Any) -> str:
    if not isinstance(array, np.ndarray | Drawn):
        return f"{_kind(array)}; it must be a NumPy array"
    if array.dtype.kind not in "biuf" and array.dtype.name != "bfloat16":
        return f"of dtype {array.dtype.name}; it must hold numbers, such as float32 or int32"
    if array.dtype.itemsize > 4:
        narrow = array.dtype.name.replace("64", "32")
        return f"{array.dtype.name}, which JAX would narrow and TensorFlow would not; use .astype({narrow!r})"
    if 0 in array.shape:
        return f"empty, of shape {tuple(array.shape)}; a step must have something to work on"
    return ""


def counts_of(page: ModuleType, workload: WorkloadSpec) -> WorkCounts:
    """The page's own counts. Raises `TrialFault` (config) for anything but a `WorkCounts`."""
    found = page.counts(workload)
    if not isinstance(found, WorkCounts):
        text = f"{_where(page, 'counts')}(workload) returned {_kind(found)}; it must return a WorkCounts"
        raise mistake("no counts", text)
    return found


def complete(page: ModuleType) -> None:
    """Give a page what it leaves out; see page.py for what may be left out."""
    for name, default in _DEFAULTS.items():
        if not hasattr(page, name):
            setattr(page, name, default)


def _counts(workload: WorkloadSpec) -> WorkCounts:
    return WorkCounts(parameters=None, flops=None, bytes=None, examples=workload.batch_size)


_DEFAULTS: dict[str, Any] = {
    "SUPPORTED_DTYPES": ("float32",),
    "COMPILED": True,
    "counts": _counts,
    "reference": lambda workload, problem: iter(()),  # noqa: ARG005
    "traces": lambda workload, framework: 1,  # noqa: ARG005
    "applicable": lambda workload, framework, device: None,  # noqa: ARG005
    "notes": lambda workload: [],  # noqa: ARG005
}


def checked(step: Any, name: str, page: ModuleType) -> Step:
    """`step`, its result compared with the state it was given; this runs while the step is traced, never after."""
    where = _where(page, name)
    if not callable(step):
        raise mistake("no step", f"{where}(workload) returned {_kind(step)}; it must return the step, a function")
    _require_signature(step, where)

    def checking(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        given = {key: _signature(leaf) for key, leaf in state.items()}
        # dicts of its own: a step may put new arrays into them, which tf.function would refuse and jax.jit would not
        result = step(dict(state), dict(batch))
        problem = _problem(given, result)
        if problem:
            raise mistake("step returns something else", f"{where}: {problem}")
        return result

    # so that JAX's messages name the page's own step
    return functools.update_wrapper(checking, step, assigned=(), updated=())


def _require_signature(step: Any, where: str) -> None:
    try:
        inspect.signature(step).bind({}, {})
    except TypeError as error:
        raise mistake("wrong signature", f"{where}: the step must take (state, batch) ({error})") from error
    except ValueError:  # a callable that does not tell
        return


def _problem(given: dict[str, str], result: Any) -> str:
    """What is wrong with a step's result, in words; '' where nothing is."""
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[0], dict):
        return f"the step returned {_kind(result)}; it must return (new state, loss), the state a dict as it came in"
    state, loss = result
    missing, extra = sorted(set(given) - set(state)), sorted(set(state) - set(given))
    if missing or extra:
        found = " and ".join([f"without {missing}"] * bool(missing) + [f"with {extra} added"] * bool(extra))
        return f"the step returned the state {found}; it must return every array that came in, and no other"
    for key, before in given.items():
        after = _signature(state[key])
        if after != before:
            return f"state[{key!r}] went in as {before} and came back as {after}; shape and dtype must stay"
        if getattr(state[key], "weak_type", False):
            return f"state[{key!r}] came back weakly typed, so the next step would be traced anew; give it its dtype"
    if _signature(loss) != "float32 ()":
        return f"the loss is {_signature(loss)}; it must be one float32 number"
    return ""


def _where(page: ModuleType, name: str) -> str:
    return f"{Path(page.__file__ or page.__name__).name}, {name}"


def _signature(leaf: Any) -> str:
    if not hasattr(leaf, "dtype") or not hasattr(leaf, "shape"):
        return _kind(leaf)
    return f"{leaf.dtype.name} {tuple(leaf.shape)}"


def _kind(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return f"a {type(value).__name__}"
