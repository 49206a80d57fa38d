"""Traces: what a program asks of its allocator, from a compiled plan or from a workload's stated shape.

A compiled step asks for one buffer an argument, and at every step one for each result of its own and one block for all
temporaries; a result that reuses an argument asks for nothing. Only sizes and their order count, no number is computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from analysis.allocators.replay import Allocate, Event, Free
from runners.specs import WorkloadSpec
from runners.workloads import allocations, churn
from runners.workloads.page import item_bytes, total_bytes

#: Steps of a plan's trace. Placement repeats from the second step on, or the third where two states are held in turn.
STEPS = 4


@dataclass(frozen=True)
class PlannedBuffers:
    """Bytes of every buffer that crosses a compiled step's boundary, of its temporaries as one block, and of its code.

    Results come in the order of the arguments that they replace (the state first); `aliased` are the numbers of the
    results that reuse the memory of an argument.
    """

    arguments: tuple[int, ...]
    outputs: tuple[int, ...]
    aliased: frozenset[int]
    temp_bytes: int
    code_bytes: int = 0


def plan_trace(plan: PlannedBuffers, steps: int = STEPS) -> list[Event]:
    """Arguments once, then `steps` steps: results and temporaries, temporaries freed, then the state they replace.

    A result takes the place of the argument of its number where both have one size, as a state's arrays have; any other
    result, and the last one (the loss), lives until the next step's has come. The order inside a step is assumed:
    results, then temporaries.
    """
    own = [index for index in range(len(plan.outputs)) if index not in plan.aliased]
    slots = {index: index if _replaces(plan, index) else len(plan.arguments) + index for index in own}
    held = {index: index for index in range(len(plan.arguments))}
    events: list[Event] = [Allocate(key, size) for key, size in enumerate(plan.arguments)]
    key = len(plan.arguments)
    for _ in range(steps):
        new = {}
        for index in own:
            events.append(Allocate(key, plan.outputs[index]))
            new[slots[index]], key = key, key + 1
        events += [Allocate(key, plan.temp_bytes), Free(key)]
        key += 1
        events += [Free(held[slot]) for slot in new if slot in held]
        held.update(new)
    return events


def _replaces(plan: PlannedBuffers, index: int) -> bool:
    """Whether a result takes the place of an argument: the last one is the loss, which replaces none."""
    return index < len(plan.outputs) - 1 and plan.arguments[index : index + 1] == plan.outputs[index : index + 1]


def churn_trace(workload: WorkloadSpec, steps: int) -> list[Event]:
    """The requests of `steps` steps of workload=churn: mixed sizes near a share of a capacity, seeded by its shape.

    The blocks alone: the scalars that a framework takes beside them are left out. `workload.shape` holds capacity_mib,
    share_percent, smallest_kib, largest_kib, events and sequence.
    """
    return list(_churn_events(workload, steps))


def _churn_events(workload: WorkloadSpec, steps: int) -> Iterator[Event]:
    item = item_bytes(workload.dtype)
    for events in islice(churn.steps(workload), steps):
        for event in events:
            yield from map(Free, event.freed)
            yield Allocate(event.key, event.elements * item)


def allocations_trace(workload: WorkloadSpec, steps: int) -> list[Event]:
    """The requests of `steps` steps of workload=allocations (many_small, few_large): every array replaced at each step.

    `workload.shape` holds total_kib and count. Donated arrays are replaced in place and ask for nothing more.
    """
    problem = allocations.inputs(workload, 0)
    sizes = [total_bytes({name: array}) for name, array in problem.state.items()]
    batch, loss = total_bytes(problem.batch), 4
    kept = frozenset(range(len(sizes))) if workload.donate else frozenset()
    return plan_trace(PlannedBuffers((*sizes, batch), (*sizes, loss), kept, 0), steps)
