"""Conditions × blocks: which trials there are, and in which order.

A randomised complete block design: every condition once per block, shuffled inside the block by the study's seed.
Conditions that differ only in the primary factor form a group, because they are compared with each other; where the
protocol interleaves, a group's trials are alive together and take turns. The tenants of a co-location form a group that
works at the same time.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from runners.naming import telling
from runners.records import Evidence, Outcome
from runners.specs import AllocationSpec, ProtocolSpec, Scalar, TrialSpec
from study import colocation, companies, devices
from study.applicability import evidence, unlaunched
from study.config import Condition, digest
from study.errors import RequestError

#: Settings that together are one level of the factor named first.
COMPOSITE_FACTORS = {"framework": ("framework", "compile")}

#: More trials than this cannot reasonably be alive at the same time.
MOST_TAKING_TURNS = 64


@dataclass(frozen=True)
class Design:
    """The study as asked: its conditions, what differs between them, and how many blocks."""

    conditions: tuple[Condition, ...]
    factors: dict[str, list[Scalar]]
    primary: str
    seed: int
    blocks: int
    most_blocks: int
    half_width: float | None
    command: str = ""
    unlaunched: dict[str, Outcome] = field(default_factory=dict)

    def plain(self, with_order: bool = True) -> dict[str, Any]:
        """The form that the manifest and the journal keep."""
        blocks = range(self.blocks if with_order else 0)
        listed = [
            {"condition_id": one.condition_id, "replicate": one.replicate, "settings": one.settings}
            for one in self.conditions
        ]
        return {
            "factors": self.factors,
            "primary": self.primary,
            "seed": self.seed,
            "blocks": self.blocks,
            "most_blocks": self.most_blocks,
            "half_width": self.half_width,
            "protocol": self.conditions[0].protocol.name,
            "command": self.command,
            "conditions": listed,
            "order": [self.ids(block) for block in blocks],
        }

    def telling(self) -> list[str]:
        """The factors that tell conditions apart, beside the framework."""
        named = telling(self.factors, [one.settings for one in self.conditions])
        return [key for key in named if key not in ("framework", "compile")]

    def groups(self) -> list[list[Condition]]:
        """The conditions that are launched, grouped by what they are compared with, or share the device with."""
        return [list(group) for group in self._grouped]

    @functools.cached_property
    def _grouped(self) -> list[list[Condition]]:
        launched = [one for one in self.conditions if one.condition_id not in self.unlaunched]
        solo = [one for one in launched if one.tenant is None]
        return [*_groups(solo, self.primary), *companies.together(launched)]

    def slow_downs(self) -> list[tuple[Condition, Condition]]:
        """Every tenant with the solo condition that it is compared with, where the design has that."""
        return companies.slow_downs([one for one in self.conditions if one.condition_id not in self.unlaunched])

    def block(self, block: int) -> list[list[TrialSpec]]:
        """The trials to launch in one block, in their shuffled order, as groups that run together.

        A compiler gives the same plan every time, so compiled conditions are in the first block only.
        """
        order = itertools.count()
        return [[trial(one, block, next(order), self.seed) for one in group] for group in self._shuffled(block)]

    def ids(self, block: int) -> list[str]:
        """The trial ids of one block, in their shuffled order."""
        return [trial_id(one, block, self.seed) for group in self._shuffled(block) for one in group]

    def _shuffled(self, block: int) -> list[list[Condition]]:
        groups = self.groups() if block == 0 else self._repeated()
        chance = random.Random(f"{self.seed}:{block}")
        chance.shuffle(groups)
        for group in groups:
            chance.shuffle(group)
        return groups

    def trial_count(self, blocks: int) -> int:
        """How many trials so many blocks launch."""
        first, further = (sum(map(len, groups)) for groups in (self.groups(), self._repeated()))
        return first + (blocks - 1) * further

    def _repeated(self) -> list[list[Condition]]:
        """The groups without their compiled conditions."""
        measured = [[one for one in group if evidence(one) is Evidence.MEASURED] for group in self.groups()]
        return [group for group in measured if group]

    def unlaunched_trials(self) -> list[tuple[TrialSpec, Outcome]]:
        """One row for every condition that means nothing or cannot run here, with its reason."""
        rows = [one for one in self.conditions if one.condition_id in self.unlaunched]
        return [
            (trial(one, 0, order, self.seed, with_entry=False), self.unlaunched[one.condition_id])
            for order, one in enumerate(rows)
        ]


def plan(conditions: Sequence[Condition], *, swept: list[str], primary: str | None, seed: int, **rest: Any) -> Design:
    """The design of a study over these conditions.

    `swept` are the settings named in the sweep, in order; `blocks` (None: the protocol's) and `command` come in `rest`.

    Raises:
        RequestError: the primary factor is not one of the settings, or too many conditions would take turns.
    """
    blocks = rest.pop("blocks", None)
    numbered = _number_replicates(conditions)
    asked = [one.blocks for one in numbered]
    half_widths = [one.half_width for one in asked if one.half_width is not None]
    fixed = blocks is not None
    design = Design(
        conditions=tuple(numbered),
        factors=_factors(numbered, swept),
        primary=_primary(numbered, swept, primary),
        seed=seed,
        blocks=blocks if fixed else max(one.least for one in asked),
        most_blocks=blocks if fixed else max(one.most for one in asked),
        half_width=None if fixed or not half_widths else min(half_widths),
        unlaunched=companies.whole_or_not(numbered, unlaunched(numbered)),
        **rest,
    )
    _refuse_crowds(design)
    return design


def _refuse_crowds(design: Design) -> None:
    """Refuse more trials that take turns than can be alive together: nothing of a group is on record before all are."""
    for group in design.groups():
        if len(group) > MOST_TAKING_TURNS and live_together(group[0]) and group[0].tenant is None:
            raise RequestError(
                f"{len(group)} conditions would take turns, each in a process that stays alive for it; at most "
                f"{MOST_TAKING_TURNS} can. protocol.interleave=false runs them one after another"
            )


def trial_id(condition: Condition, block: int, seed: int) -> str:
    """16 hexadecimal digits over the whole condition, the block and the seed."""
    identity: dict[str, Any] = {"condition": condition.condition_id, "block": block, "seed": seed}
    found = evidence(condition)
    if found is Evidence.COMPILED:
        # where the chip is present another time, its measurement is another trial
        identity["evidence"] = found.value
    return digest(identity)


def trial(condition: Condition, block: int, order: int, seed: int, with_entry: bool = True) -> TrialSpec:
    """One trial of a condition, with the id of `trial_id`.

    Inputs and weights depend on the study's seed and the block only, so that the trials of a block get the same bytes.
    """
    found = evidence(condition)
    bare = AllocationSpec(condition.allocation.name, condition.allocation.fraction, condition.allocation.limit_bytes)
    return TrialSpec(
        trial_id=trial_id(condition, block, seed),
        condition_id=condition.condition_id,
        block=block,
        order=order,
        seed=_block_seed(block, seed),
        evidence=found.value,
        framework=condition.framework,
        device=condition.device,
        allocation=allocation_spec(condition)
        if with_entry and not devices.PLACE.elsewhere and found is Evidence.MEASURED
        else bare,
        workload=condition.workload,
        protocol=_protocol(condition, found),
        settings={**condition.settings, "replicate": condition.replicate},
        tenancy=companies.tenancy(condition, block, seed),
    )


def live_together(condition: Condition) -> bool:
    """As `alive_together`, of the trials that a condition will have."""
    return condition.tenant is not None or condition.protocol.interleave


def alive_together(spec: TrialSpec) -> bool:
    """Whether the trials of this one's group are alive at the same time: they take turns, or share the device."""
    return spec.tenancy is not None or spec.protocol.interleave


@functools.cache
def _block_seed(block: int, seed: int) -> int:
    return int(digest({"block": block, "seed": seed})[:12], 16)


def _protocol(condition: Condition, found: Evidence) -> ProtocolSpec:
    """The condition's; tenants take no turns, and a compiler that has to do without the device gets twice the time."""
    protocol = condition.protocol
    if condition.tenant is not None:
        protocol = replace(protocol, interleave=False)
    if found is Evidence.MEASURED:
        return protocol
    limits = protocol.deadline_seconds
    doubled: dict[str, float] = {name: 2 * limits[name] for name in ("compile", "total") if name in limits}
    return replace(protocol, deadline_seconds={**limits, **doubled})


def allocation_spec(condition: Condition) -> AllocationSpec:
    """What the mode sets for this framework and device, with fraction and limit filled in."""
    entry, asked = condition.entry, condition.allocation
    assert entry is not None, "a condition without an entry is never launched"
    environment, calls, accepts = dict(entry.environment), {}, entry.accepts
    limit = limit_bytes(condition)
    if asked.fraction is None and asked.limit_bytes is None:
        environment.update(entry.uncapped_environment)
        calls = dict(entry.uncapped_calls)
    else:
        fill = _cap_figures(condition, limit)
        environment.update({key: value.format(**fill) for key, value in entry.capped_environment.items()})
        calls = {key: value.format(**fill) for key, value in entry.capped_calls.items()}
        accepts = entry.capped_accepts or accepts
    if entry.preload is not None:
        path = devices.library(entry.preload.libraries)
        assert path is not None, "a condition without its library is never launched"
        environment["LD_PRELOAD"] = path
    return AllocationSpec(asked.name, asked.fraction, limit, environment, calls, tuple(accepts))


def limit_bytes(condition: Condition) -> int | None:
    """The cap in bytes: as given, or the fraction of the device's memory; None without a cap or where it is unknown."""
    asked = condition.allocation
    if asked.fraction is None:
        return asked.limit_bytes
    total = devices.total_memory_bytes(condition.device.kind)
    return None if total is None else int(asked.fraction * total)


def _cap_figures(condition: Condition, limit: int | None) -> dict[str, Any]:
    total = devices.total_memory_bytes(condition.device.kind)
    fraction = condition.allocation.fraction
    if fraction is None and limit is not None and total:
        fraction = limit / total
    if limit is None or fraction is None:
        raise RequestError(
            f"the memory of device={condition.device.kind} could not be read, so that allocation.fraction and "
            "allocation.limit_bytes cannot be turned into each other here"
        )
    return {"fraction": f"{fraction:.6f}", "limit_mib": limit // 2**20, "limit_bytes": limit}


def _number_replicates(conditions: Sequence[Condition]) -> list[Condition]:
    seen: dict[str, int] = {}
    numbered = []
    for one in conditions:
        count = seen.get(one.condition_id, 0)
        seen[one.condition_id] = count + 1
        numbered.append(replace(one, replicate=count) if count else one)
    return numbered


def _factors(conditions: Sequence[Condition], swept: list[str]) -> dict[str, list[Scalar]]:
    """Every setting that takes more than one value, and every one that was swept, with its levels in order."""
    keys = dict.fromkeys(key for one in conditions for key in one.settings)
    levels = {key: list(dict.fromkeys(one.settings.get(key) for one in conditions)) for key in keys}
    return {key: values for key, values in levels.items() if len(values) > 1 or key in swept}


def _primary(conditions: Sequence[Condition], swept: list[str], asked: str | None) -> str:
    settings = conditions[0].settings
    if asked is not None:
        if asked not in settings:
            raise RequestError(f"study.primary={asked} is no factor; it takes one of {', '.join(sorted(settings))}")
        return asked
    varied: Callable[[str, Sequence[Condition]], bool] = lambda key, among: any(  # noqa: E731
        len({one.settings.get(part) for one in among}) > 1 for part in COMPOSITE_FACTORS.get(key, (key,))
    )
    # frameworks that only share a device have nothing to be compared with but themselves alone
    alone = [one for one in conditions if one.tenant is None]
    first = ["framework"] if varied("framework", alone) else []
    unmeant = ("framework",) if len(alone) == len(conditions) else colocation.OF_ONE_TENANT
    further = [key for key in (*swept, colocation.COLOCATION, *settings) if key not in unmeant]
    return next((key for key in [*first, *further] if key in settings and varied(key, conditions)), "framework")


def _groups(conditions: Sequence[Condition], primary: str) -> list[list[Condition]]:
    own = COMPOSITE_FACTORS.get(primary, (primary,))
    groups: dict[str, list[Condition]] = {}
    for one in conditions:
        rest = {key: value for key, value in one.settings.items() if key not in own}
        # an interpreter belongs to its framework: it is no difference between conditions that are compared
        rest.pop("framework.python", None)
        groups.setdefault(digest({**rest, "replicate": one.replicate}), []).append(one)
    return list(groups.values())
