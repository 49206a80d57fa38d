"""One page per workload: `load(name)` gives the module. What a page offers is written down in page.py."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from runners.faults import TrialFault


def names() -> list[str]:
    """Every page here, without importing it."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name != "page")


def load(name: str) -> ModuleType:
    """The page of workload `name`. Raises `TrialFault` (config) for an unknown one, with the names there are."""
    if name not in names():
        raise TrialFault("config", "unknown workload", f"workload {name!r} is unknown; known are {', '.join(names())}")
    return importlib.import_module(f"{__name__}.{name}")
