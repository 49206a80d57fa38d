"""The matrix of allocation modes, mode × framework × device: what is set, or why not.

It is read from conf/allocation by the composition that a study uses, so that levels of one's own, found through
hydra.searchpath, stand in it too.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from omegaconf import DictConfig, OmegaConf

from study import help, schema, sweeper
from study.compose import COMPOSITION_ERRORS, explain
from study.config import entry_of
from study.errors import RequestError
from study.schema import Allocation, AllocationEntry, DeviceKind

#: How the caps are written where no figure is filled in.
SYMBOLS = {"{fraction}": "f", "{limit_mib}": "⌊f·total⌋ MiB", "{limit_bytes}": "⌊f·total⌋ bytes"}
#: A call → how a person would write it.
CALLS = {
    "memory_growth": "set_memory_growth({})",
    "memory_limit_mib": "memory_limit={} (LogicalDeviceConfiguration)",
    "gpu_memory_fraction": "per_process_gpu_memory_fraction={} (v1 GPUOptions)",
}


@dataclass(frozen=True)
class Cell:
    """One mode for one framework on one device: `settings` are what is set, one a line; or there is a `why_not`."""

    mode: str
    framework: str
    device: str
    settings: tuple[str, ...] = ()
    why_not: str | None = None
    accepts: tuple[str, ...] = ()
    note: str = ""


def matrix(modes: list[str], overrides: list[str]) -> Iterator[Cell]:
    """Every cell of the modes named (none: of all), modes in order of name, the default first.

    Raises:
        RequestError: an unknown mode, or a level that no study would take.
    """
    with _composition():
        known = _levels(overrides)
        unknown = [mode for mode in modes if mode not in known]
        if unknown:
            raise RequestError(f"{unknown[0]} is no allocation mode; there are {', '.join(known)}")
        for mode in modes or known:
            allocation = _allocation(overrides, mode)
            for device in DeviceKind:
                for framework in allocation.frameworks:
                    yield _cell(allocation, framework, device.value)


def level(mode: str) -> Allocation:
    """A level of conf/allocation as a study composes it. Raises `RequestError` where there is none of that name."""
    with _composition():
        return _allocation([], mode)


def what_is_set(entry: AllocationEntry, capped: bool | None = None) -> list[str]:
    """Variables, calls and libraries of an entry, one a string; `capped` None: with a cap and without, each said."""
    always = [*_pairs(entry.environment)]
    if entry.preload is not None:
        always.insert(0, f"LD_PRELOAD={entry.preload.libraries[0]} (Debian: {entry.preload.package})")
    with_cap = [*_pairs(entry.capped_environment), *_calls(entry.capped_calls)]
    without = [*_pairs(entry.uncapped_environment), *_calls(entry.uncapped_calls)]
    if capped is not None:
        return always + (with_cap if capped else without)
    either = bool(with_cap and without) or (bool(with_cap) and bool(always))
    return [
        *always,
        *(f"with a cap: {one}" if either else one for one in with_cap),
        *(f"without: {one}" if either else one for one in without),
    ]


def _cell(allocation: Allocation, framework: str, device: str) -> Cell:
    entry = entry_of(allocation, framework, device)
    if entry is None or entry.not_applicable is not None:
        reason = "no entry" if entry is None else entry.not_applicable
        return Cell(allocation.name, framework, device, why_not=reason)
    always_capped = allocation.fraction is not None
    settings = what_is_set(entry, True if always_capped else None)
    return Cell(allocation.name, framework, device, tuple(settings), None, tuple(entry.accepts), entry.note)


def _pairs(environment: dict[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        yield f"{name}={_symbolic(value)}"


def _calls(calls: dict[str, Any]) -> Iterator[str]:
    for name, value in calls.items():
        yield CALLS.get(name, f"{name}({{}})").format(_symbolic(str(value)))


def _symbolic(value: str) -> str:
    for placeholder, symbol in SYMBOLS.items():
        value = value.replace(placeholder, symbol)
    return value


@contextlib.contextmanager
def _composition() -> Iterator[None]:
    schema.register()
    sweeper.register()
    with initialize_config_dir(str(_conf_folder().resolve()), version_base="1.3"):
        yield


def _allocation(overrides: list[str], mode: str) -> Allocation:
    return OmegaConf.to_object(_composed(overrides, mode).allocation)  # type: ignore[return-value]


def _levels(overrides: list[str]) -> list[str]:
    """The levels of conf/ and of every folder that hydra.searchpath adds, the default first."""
    hydra = _composed(overrides, None, with_hydra=True).hydra
    folders = [re.sub("^file://", "", one) for one in hydra.searchpath]
    own = [path.stem for folder in folders for path in (Path(folder) / "allocation").glob("*.yaml")]
    return ["default", *sorted({*help.levels("allocation"), *own} - {"default"})]


def _composed(overrides: list[str], mode: str | None, with_hydra: bool = False) -> DictConfig:
    chosen = [] if mode is None else [f"allocation={mode}"]
    try:
        return compose("config", [*overrides, *chosen], return_hydra_config=with_hydra)
    except COMPOSITION_ERRORS as error:
        raise RequestError(explain(error)) from error


def _conf_folder() -> Path:
    from study.__main__ import conf_folder  # here and not above: that module imports this one

    return conf_folder()
