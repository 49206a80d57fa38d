"""Traces of plans and workloads, canonical modes on a chip, and processes side by side, against counts by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from analysis.allocator_model import (
    MOST_TENANTS,
    Allocate,
    BfcPool,
    Chip,
    Device,
    Driver,
    Free,
    PlannedBuffers,
    UpperEndPool,
    allocations_trace,
    churn_trace,
    jax_preallocated,
    modes,
    plan_trace,
    replay,
    tenancy,
)
from analysis.allocators.modes import tf_default_limit_bytes
from runners.specs import WorkloadSpec
from runners.workloads import churn

MIB, GIB = 2**20, 2**30
CHURN = WorkloadSpec(
    "churn", "tiny", 1, "float32",
    {"capacity_mib": 4, "share_percent": 80, "smallest_kib": 4, "largest_kib": 512, "events": 4, "sequence": 1},
)  # fmt: skip
#: Two state arrays and a batch; new state and a loss of 4 bytes; 50 bytes of temporaries.
BUFFERS = PlannedBuffers((100, 200, 4), (100, 200, 4), frozenset(), 50)


def mode(framework: str, name: str):  # type: ignore[no-untyped-def]
    (found,) = (one for one in modes(framework) if one.name == name)
    return found


def test_without_donation_a_step_holds_the_old_state_and_the_new() -> None:
    trace = plan_trace(BUFFERS, steps=2)
    assert trace == [
        Allocate(0, 100), Allocate(1, 200), Allocate(2, 4),
        Allocate(3, 100), Allocate(4, 200), Allocate(5, 4), Allocate(6, 50), Free(6), Free(0), Free(1),
        Allocate(7, 100), Allocate(8, 200), Allocate(9, 4), Allocate(10, 50), Free(10), Free(3), Free(4), Free(5),
    ]  # fmt: skip
    found = replay(trace, BfcPool(Driver(2**40, 1), GIB, growth=True))
    assert found.peak_requested_bytes == 2 * 300 + 4 + 2 * 4 + 50  # state twice, batch, two losses, temporaries


def test_with_donation_only_loss_and_temporaries_are_new() -> None:
    trace = plan_trace(replace(BUFFERS, aliased=frozenset({0, 1})), steps=1)
    assert trace[3:] == [Allocate(3, 4), Allocate(4, 50), Free(4)]


def test_a_churn_trace_is_the_workloads_own_events() -> None:
    trace, steps = churn_trace(CHURN, 5), list(islice(churn.steps(CHURN), 5))
    taken = [event for event in trace if isinstance(event, Allocate)]
    assert [event.size_bytes for event in taken] == [4 * one.elements for step in steps for one in step]
    assert len(trace) - len(taken) == sum(len(one.freed) for step in steps for one in step)
    found = replay(trace, BfcPool(Driver(2**40, 1), GIB, growth=True))
    most = 4 * MIB * 80 // 100
    assert most - 512 * 1024 < found.peak_requested_bytes <= most
    assert churn_trace(replace(CHURN, shape={**CHURN.shape, "sequence": 2}), 5) != trace


@pytest.mark.parametrize(("donate", "states"), [(False, 2), (True, 1)])
def test_an_allocations_trace_replaces_every_array_at_every_step(donate: bool, states: int) -> None:
    workload = WorkloadSpec("allocations", "tiny", 1, "float32", {"total_kib": 64, "count": 4}, donate=donate)
    found = replay(allocations_trace(workload, 3), BfcPool(Driver(2**40, 1), GIB, growth=True))
    assert found.peak_requested_bytes == states * 64 * 1024 + 4 + 2 * 4


def test_jax_preallocates_by_its_version() -> None:
    device = Device(80 * GIB, 79 * GIB, 9.0)
    classic, upper = jax_preallocated(device, 0.75, "0.10.2"), jax_preallocated(device, 0.75, "0.12.0.1")
    assert isinstance(classic, BfcPool) and isinstance(upper, UpperEndPool)
    for pool in (classic, upper):
        pool.allocate(1)
        assert pool.pool_bytes == 60 * GIB
    with pytest.raises(ValueError, match="JAX's version 'new' does not begin with two numbers"):
        jax_preallocated(device, 0.75, "new")


@pytest.mark.parametrize(
    ("capability", "reserve_mib"), [(6.1, 500), (7.5, 1050), (8.0, 1536), (8.9, 1536), (9.0, 1800), (10.0, 1800)]
)
def test_tensorflow_leaves_a_reserve_by_compute_capability(capability: float, reserve_mib: int) -> None:
    assert tf_default_limit_bytes(Device(80 * GIB, 10 * GIB, capability)) == 10 * GIB - reserve_mib * MIB
    assert tf_default_limit_bytes(Device(80 * GIB, GIB, capability)) == GIB - 225 * MIB
    assert tf_default_limit_bytes(Device(80 * GIB, 100 * MIB, capability)) == 0


def test_a_growing_pool_lets_many_processes_in_and_a_preallocated_one_few() -> None:
    trace = [Allocate(0, 900 * MIB)]
    chip, context = Chip(10 * GIB, 9.0), 500 * MIB
    grown = tenancy(trace, mode("jax", "growth"), chip, "0.10.2", context_bytes=context)
    # a region of 1,024 MiB (2 MiB doubled) and the context: 1,524 MiB, of which 10,240 MiB hold 6; the 7th's driver
    # has 596 MiB left beside its context
    assert (grown.process_bytes, grown.tenants_count) == (1524 * MIB, 6)
    fixed = tenancy(trace, mode("jax", "preallocate"), chip, "0.10.2", context_bytes=context)
    # 7,680 MiB and a context leave 2,060; the second backs off to less than 1,560 and still fits; the third does not
    assert (fixed.process_bytes, fixed.tenants_count) == (8180 * MIB, 2)
    reserved = tenancy(trace, mode("jax", "async_reserved"), chip, "0.10.2", context_bytes=context)
    assert reserved.tenants_count == 1  # a reservation does not back off


def test_what_does_not_fit_at_all_has_no_tenant_and_says_where_it_failed() -> None:
    found = tenancy([Allocate(0, MIB), Allocate(1, 11 * GIB)], mode("tf", "growth"), Chip(10 * GIB, 8.0), "2.21.0")
    assert (found.tenants_count, found.first.fits, found.first.refused_event) == (0, False, 1)


def test_contexts_alone_can_fill_a_chip_and_counting_stops_somewhere() -> None:
    trace = [Allocate(0, 256)]
    assert tenancy(trace, mode("tf", "platform"), Chip(MIB, 8.0), "2.21.0").tenants_count == 0
    assert tenancy(trace, mode("tf", "platform"), Chip(80 * GIB, 8.0), "2.21.0").tenants_count == MOST_TENANTS


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_every_mode_serves_a_plan_and_reserves_as_it_should(framework: str) -> None:
    chip, trace = Chip(10 * GIB, 9.0), plan_trace(BUFFERS)
    found = {one.name: tenancy(trace, one, chip, "0.12.0.1").first for one in modes(framework)}
    assert all(one.fits and one.peak_requested_bytes == 662 for one in found.values())
    pools = {name: one.peak_pool_bytes for name, one in found.items()}
    # platform: batch, old and new state, old and new loss, temporaries; each in a page of its own
    whole = 7680 * MIB if framework == "jax" else (10 * 1024 - 512 - 1800) * MIB
    assert pools == {
        "default": whole, "preallocate": 7680 * MIB, "growth_capped": 2 * MIB, "growth": 2 * MIB,
        "platform": 8 * 2 * MIB, "async_reserved": whole, "async_elastic": 2 * MIB,
    }  # fmt: skip
