"""One file per framework, `NAME_runner.py`, with a class `Runner` (see base.py). Importing it imports the framework."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil

from runners.faults import TrialFault
from runners.frameworks.base import FrameworkRunner

_SUFFIX = "_runner"


def names() -> list[str]:
    """Every framework that has a file here, without importing it."""
    return sorted(m.name.removesuffix(_SUFFIX) for m in pkgutil.iter_modules(__path__) if m.name.endswith(_SUFFIX))


def load(name: str) -> FrameworkRunner:
    """Import framework `name` and give its runner. Creates no backend, no device, no context.

    Raises:
        TrialFault: `config` for an unknown name, `unavailable` where the framework is not installed.
    """
    own = f"{__name__}.{name}{_SUFFIX}"
    # a runner of the user's own is a module NAME_runner anywhere on the import path
    module_name = own if name in names() else f"{name}{_SUFFIX}"
    if module_name != own and importlib.util.find_spec(module_name) is None:
        known = f"{', '.join(names())}, and any module {module_name} on PYTHONPATH"
        text = f"framework {name!r} is unknown; known are {known}"
        raise TrialFault("config", "unknown framework", text)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise TrialFault(
            "unavailable", "framework not installed", f"{error.name} is not installed in this interpreter ({error})"
        ) from error
    return module.Runner()
