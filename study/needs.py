"""What a machine must have for the trials of a design, as far as that is known before any of them has run."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from runners.faults import TrialFault
from runners.records import Evidence
from study.applicability import evidence
from study.config import Condition
from study.design import Design, live_together

#: Pages that need a framework, or are the user's own code, before they can tell the shapes of their arrays.
UNTOLD = ("keras", "file")


@dataclass(frozen=True)
class Needs:
    """Of all trials together: the kinds of devices, the most cores that one is bound to, and who is alive with whom."""

    kinds: frozenset[str]
    cores: int | None
    alive: tuple[tuple[Condition, ...], ...] = ()

    @functools.cached_property
    def memory_bytes(self) -> int | None:
        """Bytes of host memory without which not every trial on the CPU can run; None where that is not known.

        It is the state and the first batch, in the dtype asked for, of the trials that are alive together: a CPU is a
        device whose memory is the host's. What a framework, a compiler and a step's own copies take comes on top.
        """
        sums = [sum(map(_array_bytes, together)) for together in self.alive]
        return max(sums, default=0) or None


def of(design: Design) -> Needs:
    """The needs of a design's conditions that are launched."""
    counts = [one.settings.get("device.cpus") for one in design.conditions]
    cores = max((count for count in counts if isinstance(count, int)), default=None)
    kinds = frozenset(one.device.kind for one in design.conditions)
    groups = [group for group in design.groups() if group]
    return Needs(kinds, cores, tuple(part for group in groups for part in _alive(group)))


def _alive(group: list[Condition]) -> list[tuple[Condition, ...]]:
    return [tuple(group)] if live_together(group[0]) else [(one,) for one in group]


def _array_bytes(condition: Condition) -> int:
    """0 where it is not known."""
    # pages bring NumPy, which the head of a local study never needs
    from runners import workloads
    from runners.workloads.page import total_bytes

    workload = condition.workload
    on_cpu = condition.device.kind == "cpu" and evidence(condition) is Evidence.MEASURED
    if not on_cpu or workload.name in UNTOLD:
        return 0
    try:
        problem = workloads.load(workload).inputs(workload, 0)
    except (TrialFault, ImportError):
        # a dtype that the page has not, or one that needs a package which the head lacks: the trial itself says so
        return 0
    return total_bytes(problem.state) + total_bytes(problem.batch)
