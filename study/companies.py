"""Which conditions of a design share a device: who belongs together, who runs at all, and who is compared with whom."""

from __future__ import annotations

from collections.abc import Sequence

from runners.records import Outcome, OutcomeKind, Phase
from runners.specs import Tenancy
from study import colocation
from study.config import Condition, digest


def together(conditions: Sequence[Condition]) -> list[list[Condition]]:
    """The tenants among the conditions, each with those that it shares the device with."""
    found: dict[str, list[Condition]] = {}
    for one in conditions:
        if one.tenant is not None:
            found.setdefault(one.tenancy_key, []).append(one)
    return list(found.values())


def slow_downs(conditions: Sequence[Condition]) -> list[tuple[Condition, Condition]]:
    """Every tenant with the condition that does the same alone, where there is one."""
    alone = {_alone(one): one for one in reversed(conditions) if one.tenant is None}
    tenants = [one for one in conditions if one.tenant is not None]
    return [(one, alone[key]) for one in tenants if (key := _alone(one)) in alone]


def _alone(condition: Condition) -> str:
    return digest(colocation.without(condition.settings, *colocation.SETTINGS))


def tenancy(condition: Condition, block: int, seed: int) -> Tenancy | None:
    """A tenant's place in its company in one block; None for a solo condition."""
    if condition.tenant is None:
        return None
    group = digest({"company": condition.tenancy_key, "block": block, "seed": seed})
    return Tenancy(_name(condition), condition.tenant, condition.tenants, group, condition.stagger_seconds)


def impossible(condition: Condition, compiled: bool) -> Outcome | None:
    """Why a tenant has no meaning here, None where it has. libtpu gives a chip to one process, by a lock file."""
    if condition.tenant is None:
        return None
    if compiled:
        reason, why = "co-location acts at run time", "is about trials that run; a plan has no company"
    elif condition.device.kind == "tpu":
        reason, why = "one process a chip", "is not possible: libtpu gives a chip to one process at a time"
    else:
        return None
    return Outcome(OutcomeKind.NOT_APPLICABLE, Phase.PREFLIGHT, reason, f"colocation={_name(condition)} {why}")


def whole_or_not(conditions: Sequence[Condition], found: dict[str, Outcome]) -> dict[str, Outcome]:
    """Condition id → why it is not launched: `found`, and the co-tenants of these, whose company would not be whole."""
    all_of_them = dict(found)
    for company in together(conditions):
        absent = next((one for one in company if one.condition_id in found), None)
        if absent is not None:
            outcome = _said_by_co_tenant(found[absent.condition_id], absent)
            all_of_them = {**{one.condition_id: outcome for one in company}, **all_of_them}
    return all_of_them


def _said_by_co_tenant(outcome: Outcome, absent: Condition) -> Outcome:
    text = f"{_name(absent)} is launched whole or not at all; its tenant {absent.tenant}: {outcome.text}"
    return Outcome(outcome.kind, outcome.phase, f"co-tenant: {outcome.reason}", text)


def _name(condition: Condition) -> str:
    return str(condition.settings[colocation.COLOCATION])
