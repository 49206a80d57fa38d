"""The way into the allocators' replays: build a pool, make a trace, replay it. Everything here is modelled.

    trace = churn_trace(workload, steps=20)
    pool = BfcPool(Driver(80 * 2**30), limit_bytes=60 * 2**30, growth=True)
    replay(trace, pool).peak_pool_bytes

`tenancy` does so for a canonical mode on a chip, for one process after another. BFC is held to TensorFlow's own by
tests/benchmarks/allocator_against_tf.py; what the CUDA driver does below the pools is assumed (see
`analysis.allocators.driver`).
"""

from __future__ import annotations

from analysis.allocators.async_pool import AsyncPool
from analysis.allocators.bfc import BfcPool
from analysis.allocators.driver import DRIVER_GRANULARITY_BYTES, Driver
from analysis.allocators.modes import DEFAULT_FRACTION, MODES, Device, Mode, jax_preallocated, modes
from analysis.allocators.platform import PlatformPool
from analysis.allocators.pool import Pool
from analysis.allocators.preallocated import UpperEndPool
from analysis.allocators.replay import Allocate, Event, Free, Replay, replay
from analysis.allocators.tenants import CONTEXT_BYTES, MOST_TENANTS, Chip, Tenancy, tenancy
from analysis.allocators.traces import PlannedBuffers, allocations_trace, churn_trace, plan_trace

__all__ = [
    "CONTEXT_BYTES",
    "DEFAULT_FRACTION",
    "DRIVER_GRANULARITY_BYTES",
    "MODES",
    "MOST_TENANTS",
    "Allocate",
    "AsyncPool",
    "BfcPool",
    "Chip",
    "Device",
    "Driver",
    "Event",
    "Free",
    "Mode",
    "PlannedBuffers",
    "PlatformPool",
    "Pool",
    "Replay",
    "Tenancy",
    "UpperEndPool",
    "allocations_trace",
    "churn_trace",
    "jax_preallocated",
    "modes",
    "plan_trace",
    "replay",
    "tenancy",
]
