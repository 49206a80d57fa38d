"""Allocations of seeded, mixed sizes, held and freed over steps, near a stated share of a capacity: fragmentation.

shape  capacity_mib, share_percent: what is held comes as near to this share as it can without going over;
       smallest_kib, largest_kib: sixteen sizes between them, evenly spaced in the logarithm;
       events: allocations a step;  sequence: the seed of their order
state  marks (events,) float32: the first element of every block taken in this step
loss   mean of marks

An event frees random blocks until the next size fits under the limit, then takes a block of that size and fills it. The
first step fills up to the limit. Nothing is compiled into one step: every event is a call of its own (jnp.full,
tf.fill), so the framework's allocator meets them one by one, as in a program whose shapes change all the time. So
compile=xla and compile=graph are the same here.

Give capacity_mib the cap of the allocation mode: allocation=growth allocation.limit_bytes=1073741824 workload=churn
workload.shape.capacity_mib=1024 workload.shape.share_percent=80,90,95. An allocator that fragments ends as oom below
100 %; one that keeps freed memory shows in the peaks.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from runners.faults import TrialFault
from runners.specs import WorkloadSpec
from runners.workloads.page import Arrays, Problem, WorkCounts, constant, describe, item_bytes

SUPPORTED_DTYPES = ("float32", "bfloat16", "float16")
#: Every event is a call of its own.
COMPILED = False

SIZES = 16


@dataclass(frozen=True)
class Event:
    """Free these blocks, then take `elements` filled with `value` as the block `key`."""

    freed: tuple[int, ...]
    key: int
    elements: int
    value: float


def sizes(workload: WorkloadSpec) -> list[int]:
    """The sizes that occur, in elements."""
    smallest, largest = workload.shape["smallest_kib"], workload.shape["largest_kib"]
    return [int(kib * 1024) // item_bytes(workload.dtype) for kib in np.geomspace(smallest, largest, SIZES)]


def limit(workload: WorkloadSpec) -> int:
    """How many elements may be held."""
    limit_bytes = workload.shape["capacity_mib"] * 2**20 * workload.shape["share_percent"] // 100
    return limit_bytes // item_bytes(workload.dtype)


def steps(workload: WorkloadSpec) -> Iterator[list[Event]]:
    """The events of every step; the first one fills up to the limit, and the last `events` of it count as its own."""
    chance, most, offered = random.Random(workload.shape["sequence"]), limit(workload), sizes(workload)
    held: dict[int, int] = {}
    key, filling = 0, True
    while True:
        events: list[Event] = []
        while filling or len(events) < workload.shape["events"]:
            elements, freed = chance.choice(offered), []
            while held and sum(held.values()) + elements > most:
                freed.append(chance.choice(list(held)))
                del held[freed[-1]]
            filling = filling and not freed
            held[key] = elements
            # the values repeat after eight, and are exact in every dtype
            events.append(Event(tuple(freed), key, elements, 1 + key * 3 % 8 / 8))
            key += 1
        filling = False
        yield events


def inputs(workload: WorkloadSpec, seed: int) -> Problem:
    """Nothing goes in but the marks' zeros; the order of events depends on shape.sequence alone."""
    if max(sizes(workload)) > limit(workload):
        text = "churn: a block of workload.shape.largest_kib is more than workload.shape.share_percent of capacity_mib"
        raise TrialFault("config", "block above the limit", f"{text}: {workload.shape}")
    return describe(seed, {"marks": constant((workload.shape["events"],), "float32")})


def reference(workload: WorkloadSpec, problem: Problem) -> Iterator[tuple[Arrays, float]]:
    """The marks of every step."""
    for events in steps(workload):
        marks = np.array([event.value for event in events[-workload.shape["events"] :]])
        yield {"marks": marks}, float(marks.mean())


def counts(workload: WorkloadSpec) -> WorkCounts:
    """bytes: what `events` blocks of mean size hold, written once."""
    mean = sum(sizes(workload)) // SIZES
    written = workload.shape["events"] * mean * item_bytes(workload.dtype)
    return WorkCounts(parameters=0, flops=0, bytes=written, examples=workload.shape["events"], matrix_flops=0)


def _step(workload: WorkloadSpec, take: Callable[[int, float], Any], marks_of: Callable[[list[Any]], Any]) -> Any:
    """A step that lives on the host: `take` gives a filled block, `marks_of` (marks, loss) of first elements."""
    held: dict[int, Any] = {}
    turns, kept = steps(workload), workload.shape["events"]

    def step(state: dict[str, Any], batch: dict[str, Any]) -> tuple[dict[str, Any], Any]:
        if not held:
            for elements in sizes(workload):  # whatever is compiled per size is compiled now, and the block freed
                marks_of([take(elements, 0.0)[0]] * kept)
        firsts: deque[Any] = deque(maxlen=kept)
        for event in next(turns):
            for key in event.freed:
                del held[key]
            held[event.key] = take(event.elements, event.value)
            firsts.append(held[event.key][0])
        marks, loss = marks_of(list(firsts))
        return {"marks": marks}, loss

    return step


def jax_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in JAX."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def summary(firsts: list[Any]) -> tuple[Any, Any]:
        marks = jnp.stack(firsts).astype(jnp.float32)
        return marks, jnp.mean(marks)

    return _step(
        workload,
        lambda elements, value: jnp.full((elements,), value, workload.dtype),
        summary,
    )


def tf_step(workload: WorkloadSpec) -> Callable[..., Any]:
    """The step in TensorFlow."""
    import tensorflow as tf

    def marks_of(firsts: list[Any]) -> tuple[Any, Any]:
        marks = tf.cast(tf.stack(firsts), tf.float32)
        return marks, tf.reduce_mean(marks)

    return _step(workload, lambda elements, value: tf.fill([elements], tf.constant(value, workload.dtype)), marks_of)
