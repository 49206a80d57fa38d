"""One page per workload: `load(workload)` gives the module. What a page offers is written down in page.py."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

from runners import contract, own_page
from runners.faults import TrialFault
from runners.specs import FrameworkSpec, WorkloadSpec

#: The workload whose page is a file of the user's own.
OWN_FILE = "file"


def names() -> list[str]:
    """Every page here, without importing it."""
    return sorted(
        module.name for module in pkgutil.iter_modules(__path__) if module.name != "page" and not module.ispkg
    )


def load(workload: WorkloadSpec) -> ModuleType:
    """The page of a workload, with whatever it leaves out filled in.

    Raises:
        TrialFault: `config` for an unknown page, with the names there are; for a file that is no page.
    """
    if workload.name == OWN_FILE:
        page = own_page.load_file(workload.path)
    elif workload.name in names():
        page = importlib.import_module(f"{__name__}.{workload.name}")
    else:
        known = ", ".join([*names(), OWN_FILE])
        raise TrialFault("config", "unknown workload", f"workload {workload.name!r} is unknown; known are {known}")
    contract.complete(page)
    return page


def step(page: ModuleType, workload: WorkloadSpec, framework: FrameworkSpec, device: str) -> contract.Step:
    """The page's step for a framework; what it returns is checked while it is traced.

    Raises:
        TrialFault: `not_applicable` where the page has no step for the framework, or says that it has no meaning here.
    """
    build = contract.builder(page, f"{framework.name}_step")
    if build is None:
        where = workload.path or page.__name__
        raise TrialFault(
            "not_applicable",
            "no step for this framework",
            f"{where} has no {framework.name}_step(workload); add it to compare the frameworks.",
        )
    reason = page.applicable(workload, framework, device)
    if reason:
        raise TrialFault("not_applicable", "workload has no meaning here", reason)
    built = build(workload)
    return contract.checked(built, f"{framework.name}_step", page) if page.COMPILED else built
