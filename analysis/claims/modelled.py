"""What the allocator model says of modes on a GPU: a stated load on a stated GPU, for where none can be measured."""

from __future__ import annotations

import functools

from analysis.allocator_model import Chip, Tenancy, allocations_trace, modes, tenancy
from analysis.claims.base import Finding, Kind, decided
from runners.specs import WorkloadSpec

#: The load: 64 arrays that hold 4 GiB, all replaced at each of four steps. The GPU: 80 GiB, compute capability 9.0.
LOAD = WorkloadSpec("allocations", "paper", 1, "float32", {"total_kib": 4 * 2**20, "count": 64}, donate=False)
STEPS = 4
CHIP = Chip(80 * 2**30, 9.0)
#: The version of JAX whose preallocated pool is replayed.
JAX_VERSION = "0.12"
WHERE = f"the replay of the allocators, {LOAD.shape['total_kib'] >> 20} GiB of arrays on a GPU of 80 GiB"


@functools.cache
def processes(framework: str, mode: str) -> Tenancy:
    """The first process, and how many fit beside each other. `mode` is a name of `analysis.allocators.modes`."""
    found = next(one for one in modes(framework) if one.name == mode)
    return tenancy(allocations_trace(LOAD, STEPS), found, CHIP, JAX_VERSION)


def finding(holds: bool, text: str) -> Finding:
    """A finding of the model."""
    return decided(Kind.MODELLED, holds, WHERE, text)


def shares(framework: str, reserving: str, growing: str) -> Finding:
    """Whether more processes fit under `growing` than under `reserving`, and at least two.

    A reserved pool that finds the GPU occupied is tried again with a tenth less, so that a second one may fit too.
    """
    reserved, grown = processes(framework, reserving), processes(framework, growing)
    text = f"{grown.tenants_count} such processes fit with {growing}, {reserved.tenants_count} with {reserving}"
    return finding(grown.tenants_count > max(reserved.tenants_count, 1), text)
