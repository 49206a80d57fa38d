"""A workload page that is a file of the user's own: imported, and whatever fails in it named by file and line.

It runs with the user's rights, as any program they start.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from runners.faults import TrialFault, mistake

#: The name under which the file is imported.
OWN_MODULE = "own_workload"

#: The functions of a page that a trial calls, besides those that build steps (see runners/workloads/page.py).
FUNCTIONS = ("inputs", "counts", "reference", "traces", "applicable", "notes")


def load_file(path: str | None) -> ModuleType:
    """Import a user's page.

    Raises:
        TrialFault: `config` where there is no such file, it cannot be imported, or it is no page; and later, from its
            functions and steps, for whatever they raise but a lack of memory.
    """
    if path is None or not Path(path).is_file():
        raise mistake("no workload file", f"workload.path={path} is no file; give the path of a Python file")
    spec = importlib.util.spec_from_file_location(OWN_MODULE, path)
    if spec is None or spec.loader is None:
        raise mistake("no workload file", f"workload.path={path} is no Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    # last on the import path: the file may import its neighbours, and hides no installed module
    sys.path.append(str(Path(path).resolve().parent))
    sys.modules[OWN_MODULE] = module
    with _named(Path(path), "cannot be imported"):
        spec.loader.exec_module(module)
    _require_page(module, path)
    for name, function in list(vars(module).items()):
        if callable(function) and (name in FUNCTIONS or name.endswith("_step")):
            setattr(module, name, _naming(function, Path(path), name))
    return module


def _require_page(module: ModuleType, path: str) -> None:
    if not callable(getattr(module, "inputs", None)):
        raise mistake("no inputs", f"{path} has no function inputs(workload, seed) that returns a Problem")
    if not any(name.endswith("_step") for name in vars(module)):
        raise mistake("no step", f"{path} has neither jax_step(workload) nor tf_step(workload); it needs one of them")


def _naming(function: Callable[..., Any], path: Path, name: str) -> Callable[..., Any]:
    """`function`, and the step that it may build, with their exceptions named."""

    @functools.wraps(function)
    def naming(*arguments: Any, **named: Any) -> Any:
        with _named(path, f"fails in {name}"):
            result = function(*arguments, **named)
        return _naming(result, path, name) if name.endswith("_step") and callable(result) else result

    @functools.wraps(function)
    def iterating(*arguments: Any) -> Iterator[Any]:
        with _named(path, f"fails in {name}"):
            yield from function(*arguments)

    return iterating if inspect.isgeneratorfunction(function) and name == "reference" else naming


@contextmanager
def _named(path: Path, what: str) -> Iterator[None]:
    """Turn an exception of the file into a fault that says where it was raised."""
    try:
        yield
    except TrialFault:
        raise
    except (Exception, SystemExit) as error:
        if _lacks_memory(error):
            raise
        source = path.resolve()
        frames = [one for one in traceback.extract_tb(error.__traceback__) if Path(one.filename).resolve() == source]
        line = f", line {frames[-1].lineno}" if frames else ""
        text = f"{path.name} {what}{line}: {type(error).__name__}: {error}{_advice(error)}"
        raise mistake("workload file fails", text) from error


def _lacks_memory(error: BaseException) -> bool:
    """An outcome of its own, and no mistake: NumPy's MemoryError, and the text that both frameworks raise it with."""
    text = f"{type(error).__name__} {error}"
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in text or "ResourceExhausted" in text


def _advice(error: BaseException) -> str:
    if not isinstance(error, ModuleNotFoundError):
        return ""
    return ". A trial holds its own framework only: import a framework inside its step; install what else is missing"
