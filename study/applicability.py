"""Which conditions need no launch, and why: they mean nothing here, or what they need is absent."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from runners.records import Evidence, Outcome, OutcomeKind, Phase
from study import chips, companies, devices
from study.config import Condition
from study.evidence import absence, resolve

ADVICE = "Use device=cpu, evidence=compiled (the plan of the device's compiler), or a machine that has the device."


def evidence(condition: Condition) -> Evidence:
    """Measured where it was asked for or the chip is present; otherwise compiled."""
    return resolve(condition.evidence, condition.device)


def unlaunched(conditions: Sequence[Condition]) -> dict[str, Outcome]:
    """Condition id → why it is not launched. What that depends on is looked at once for all conditions alike in it."""
    reasons: dict[Any, Outcome | None] = {}
    found = {}
    for one in conditions:
        mode = one.allocation
        key = (
            one.framework,
            repr(one.device),
            one.evidence,
            repr(one.entry),
            mode.name,
            mode.fraction,
            mode.limit_bytes,
        )
        if key not in reasons:
            reasons[key] = without_launch(one)
        outcome = reasons[key]
        if outcome is not None:
            found[one.condition_id] = outcome
    return found


def without_launch(condition: Condition) -> Outcome | None:
    """Why a condition is not launched: it has no meaning here, or what it needs is absent. None: launch it."""
    compiled = evidence(condition) is Evidence.COMPILED
    lonely = partial(companies.impossible, compiled=compiled)
    for check in (_no_meaning, lonely, _not_compiled if compiled else _not_applicable, _unavailable):
        outcome = check(condition)
        if outcome is not None:
            return outcome
    return None


def _no_meaning(condition: Condition) -> Outcome | None:
    """A chip of another device."""
    sheet, device = condition.device.sheet, condition.device.kind
    if sheet is None or sheet.platform == chips.PLATFORMS.get(device):
        return None
    text = f"chip={sheet.name} is no chip of device={device}; {_chips_of(device)}"
    return _outcome(OutcomeKind.NOT_APPLICABLE, "chip of another device", text)


def _chips_of(device: str) -> str:
    names = chips.levels(device)
    return f"it has {', '.join(names)}" if names else "leave chip out there"


def _not_compiled(condition: Condition) -> Outcome | None:
    """Conditions whose plan would be none, or the same as another's."""
    framework, device, mode = condition.framework, condition.device.kind, condition.allocation.name
    if framework.compile == "graph" and device != "tpu":
        text = f"tf_graph on a {device} runs operation by operation: there is no one module whose memory is planned"
        return _outcome(OutcomeKind.NOT_APPLICABLE, "not compiled as a whole", text)
    if mode != "default":
        text = f"allocation={mode} acts at run time; the compiler's plan is that of allocation=default"
        return _outcome(OutcomeKind.NOT_APPLICABLE, "mode acts at run time", text)
    return None


def _not_applicable(condition: Condition) -> Outcome | None:
    entry, mode = condition.entry, condition.allocation
    where = f"{condition.framework.name} on {condition.device.kind}"
    if entry is None:
        return _outcome(OutcomeKind.NOT_APPLICABLE, "no entry", f"allocation={mode.name} has no entry for {where}")
    if entry.not_applicable is not None:
        return _outcome(OutcomeKind.NOT_APPLICABLE, "mode has no meaning here", entry.not_applicable)
    capped = mode.fraction is not None or mode.limit_bytes is not None
    if capped and not (entry.capped_environment or entry.capped_calls):
        text = f"allocation={mode.name} takes no fraction or limit for {where}; allocation=growth does where one exists"
        return _outcome(OutcomeKind.NOT_APPLICABLE, "no cap", text)
    return None


def _unavailable(condition: Condition) -> Outcome | None:
    if devices.PLACE.elsewhere:
        return None
    entry, absent = condition.entry, absence(condition.device)
    if evidence(condition) is Evidence.COMPILED:
        missing = devices.missing_compiler(condition.device.kind)
        if missing:
            return _outcome(OutcomeKind.UNAVAILABLE, "compiler not installed", missing)
    elif absent:
        return _outcome(OutcomeKind.UNAVAILABLE, "device absent", f"{absent}. {ADVICE}")
    if condition.framework.python is None:
        missing = devices.missing_framework(condition.framework.name)
        if missing:
            return _outcome(OutcomeKind.UNAVAILABLE, "framework not installed", missing)
    if entry is not None and entry.preload is not None and devices.library(entry.preload.libraries) is None:
        names, package = " or ".join(entry.preload.libraries), entry.preload.package
        text = f"{names} is not installed; Debian has it in the package {package}"
        return _outcome(OutcomeKind.UNAVAILABLE, "library not installed", text)
    return None


def _outcome(kind: OutcomeKind, reason: str, text: str) -> Outcome:
    return Outcome(kind, Phase.PREFLIGHT, reason, text)
