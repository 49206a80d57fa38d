"""The workloads that put allocators to work: what they hold, what they cost, and that both frameworks do the same."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
import yaml

from runners import workloads
from runners.specs import AllocationSpec, FrameworkSpec
from runners.workloads import churn
from tests.runners.harness import ROOT, make_spec, run_trial, workload


def _held(spec, steps: int) -> list[int]:
    """Elements held after every event."""
    held: dict[int, int] = {}
    after = []
    for events in islice(churn.steps(spec), steps):
        for event in events:
            for key in event.freed:
                del held[key]
            held[event.key] = event.elements
            after.append(sum(held.values()))
    return after


@pytest.mark.parametrize("share", [50, 80, 95])
def test_churn_stays_near_its_share_and_never_over_it(share: int) -> None:
    spec = workload("churn", "default")
    spec = replace(spec, shape={**spec.shape, "share_percent": share})
    held = np.array(_held(spec, 400)) * 4
    limit = spec.shape["capacity_mib"] * 2**20 * share / 100
    assert held.max() <= limit
    # what is missing to the limit is less than one block on the way
    settled = held[held.argmax() :]
    assert settled.min() >= limit - 2 * spec.shape["largest_kib"] * 1024
    assert settled.mean() >= 0.95 * limit


def test_churn_mixes_all_sizes_in_a_seeded_order() -> None:
    spec = workload("churn", "default")
    sizes = [event.elements for events in islice(churn.steps(spec), 200) for event in events]
    assert sorted(set(sizes)) == churn.sizes(spec)
    assert (min(sizes), max(sizes)) == (64 * 1024 // 4, 16384 * 1024 // 4)
    again = [event.elements for events in islice(churn.steps(spec), 200) for event in events]
    other = replace(spec, shape={**spec.shape, "sequence": 2})
    assert sizes == again
    assert sizes != [event.elements for events in islice(churn.steps(other), 200) for event in events]


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_churn_runs_in_both_and_its_memory_is_seen(framework: str) -> None:
    spec = workload("churn")
    spec = replace(spec, shape={**spec.shape, "capacity_mib": 64, "largest_kib": 4096})
    run = run_trial(make_spec(framework, workload=spec))
    assert run.status == 0, run.stderr
    report = run.report
    assert report.match.losses == pytest.approx(report.match.reference_losses)
    assert report.counts.traces == 0
    risen = report.memory["host_peak"].value - report.memory["host_baseline"].value
    assert risen >= 0.7 * 0.8 * 64 * 2**20


def test_a_fragmented_pool_that_runs_out_says_how_large_its_largest_free_block_was() -> None:
    """Case 6. The failing request is larger than any free block, and the pool could not grow by it."""
    spec = workload("churn", "default")
    spec = replace(spec, shape={**spec.shape, "capacity_mib": 256})
    limit = {"TF_CPU_ALLOCATOR_USE_BFC": "1", "TF_CPU_BFC_MEM_LIMIT_IN_MB": "64"}
    log = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "process_state=2,bfc_allocator=1"}
    mode = AllocationSpec("growth", limit_bytes=64 * 2**20, environment={**limit, **log}, accepts=("bfc_limit",))
    run = run_trial(make_spec("tf", "graph", workload=spec, allocation=mode))
    assert run.status == 1
    asked = 4 * int(re.findall(r"OOM when allocating tensor with shape\[(\d+)\]", run.failure["text"])[-1])
    memory = run.report.memory
    pool, largest = memory["device_pool_peak"].value, memory["device_largest_free_block"].value
    assert 0 < largest < asked
    assert asked > 64 * 2**20 - pool, "it would have fitted into what the pool may still take"
    assert 0 < memory["device_live_peak"].value <= pool <= 64 * 2**20
    assert run.report.allocation.effective == "bfc_limit"


def test_dynamic_shapes_reports_what_new_shapes_cost() -> None:
    run = run_trial(make_spec("tf", "graph", workload=workload("dynamic_shapes", tracing="reduce_retracing")))
    assert run.status == 0, run.stderr
    report = run.report
    assert report.counts.traces == 2
    assert len(report.timings.retrace_seconds) == 20
    assert min(report.timings.retrace_seconds[:2]) > 10 * np.median(np.abs(report.timings.retrace_seconds[2:]))
    assert report.memory["retrace_caches"].value > 0
    assert report.timings.steps_per_window % 20 == 0
    assert report.counts.examples_per_step == 10 + 19
    np.testing.assert_allclose(
        report.match.losses, report.match.reference_losses[: len(report.match.losses)], rtol=1e-4
    )


def test_jax_has_one_way_to_meet_shapes() -> None:
    run = run_trial(make_spec("jax", workload=workload("dynamic_shapes", tracing="signature")))
    assert (run.failure["kind"], run.failure["reason"]) == ("not_applicable", "tracing not offered")


def test_declared_traces() -> None:
    page, spec = workloads.load(workload("dynamic_shapes")), workload("dynamic_shapes", "default")
    jax, tf = FrameworkSpec("jax", "jit"), FrameworkSpec("tf", "graph")
    assert [page.traces(spec, framework) for framework in (jax, tf)] == [20, 20]
    assert page.traces(replace(spec, tracing="reduce_retracing"), tf) == 2
    assert page.traces(replace(spec, tracing="signature"), tf) == 1


def test_placement_has_no_meaning_on_the_cpu() -> None:
    run = run_trial(make_spec("jax", workload=workload("placement")))
    assert (run.failure["kind"], run.failure["reason"]) == ("not_applicable", "workload has no meaning here")
    assert "with device=cpu there is none" in run.failure["text"]


@pytest.mark.parametrize("size", ["tiny", "default", "paper"])
def test_many_small_and_few_large_hold_the_same_bytes(size: str) -> None:
    problems = []
    for level in ("many_small", "few_large"):
        conf = yaml.safe_load((ROOT / f"conf/workload/{level}.yaml").read_text())
        spec = workload(level, size)
        assert spec.name == "allocations"
        assert conf["donate"] is False
        problems.append(workloads.load(spec).inputs(spec, 0))
    many, few = ([int(np.prod(array.shape)) for array in problem.state.values()] for problem in problems)
    assert sum(many) == sum(few)
    assert len(many) >= 8 * len(few)
