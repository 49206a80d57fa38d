"""The schema of a trial, what comes back: what is streamed (events) and what is kept (`TrialRecord`).

Only the standard library is imported, so the parent, the children and the analysis can share this file whatever else
their interpreters hold. What is asked is in `runners.specs`; `runners.lines` turns both into lines and back.

Units stand in the names: `_bytes` are integers, `_seconds` are floats. None means "not measured"; 0 is a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from runners.specs import SCHEMA_VERSION, Scalar, TrialSpec


class OutcomeKind(StrEnum):
    """How a trial ended: the closed list. `ok` is the only one with a value to compare."""

    OK = "ok"
    OOM = "oom"
    CRASH = "crash"
    TIMEOUT = "timeout"
    UNAVAILABLE = "unavailable"
    NOT_APPLICABLE = "not_applicable"
    CONFIG = "config"
    INVALID = "invalid"


#: Outcomes that are answers rather than faults; any other makes the exit status 1.
ANSWERS = frozenset({OutcomeKind.OK, OutcomeKind.OOM, OutcomeKind.NOT_APPLICABLE})


class Evidence(StrEnum):
    """Where a number comes from. The two kinds never share a column or a panel."""

    MEASURED = "measured"
    COMPILED = "compiled"


class Phase(StrEnum):
    """The phases of one trial, in order. A deadline belongs to each of them."""

    PREFLIGHT = "preflight"
    LAUNCH = "launch"
    IMPORT = "import"
    PLACE = "place"
    PROBE = "probe"
    COMPILE = "compile"
    FIRST_STEP = "first_step"
    WARMUP = "warmup"
    CALIBRATE = "calibrate"
    WAIT = "wait"
    MEASURE = "measure"
    TEARDOWN = "teardown"


class Barrier(StrEnum):
    """Where the tenants of a co-location wait for each other, in order.

    `device`: before the backend is created, and so before the first allocation on the device. `windows`: before the
    first measured window. `end`: after the last one; who waits there goes on stepping, so that the others' windows have
    company.
    """

    DEVICE = "device"
    WINDOWS = "windows"
    END = "end"


@dataclass
class Quantity:
    """One memory figure: bytes or None, the counter it was read from, and the error bound of that counter in bytes."""

    value: int | None = None
    source: str = ""
    error_bound_bytes: int | None = None


@dataclass
class Timings:
    """Every time of a trial, in seconds on CLOCK_MONOTONIC.

    `compile_method` says how `compile_seconds` was obtained: `ahead_of_time` (trace, lower and compile timed apart) or
    `first_minus_second_call` (trace, and the first call less the second). `first_step_seconds` runs from the request to
    trace until the first step's results exist, and is comparable across frameworks. `window_start_seconds` are clock
    readings, comparable between processes of one machine only. `retrace_seconds` has one entry for each batch of a
    workload whose batches change shape: what a step took the first time a batch came round, less the second time.
    `phase_start_seconds` also holds `done`, and of a tenant `ready_device`, `ready_windows` and `ready_end`: when it
    began to wait for the others.
    """

    phase_start_seconds: dict[str, float] = field(default_factory=dict)
    import_seconds: float | None = None
    place_seconds: float | None = None
    trace_seconds: float | None = None
    lower_seconds: float | None = None
    compile_seconds: float | None = None
    compile_method: str | None = None
    first_step_seconds: float | None = None
    warmup_step_seconds: list[float] = field(default_factory=list)
    steady: bool | None = None
    retrace_seconds: list[float] = field(default_factory=list)
    steps_per_window: int | None = None
    window_seconds: list[float] = field(default_factory=list)
    window_start_seconds: list[float] = field(default_factory=list)


@dataclass
class AllocationResult:
    """Which mechanism really served the allocations, and the readings that show it.

    `effective` is from the closed list of `runners.probes.mechanism.MECHANISMS`; `device_allocator` is the framework's
    own pool or pass-through, `host_allocator` the malloc below it.
    """

    effective: str | None = None
    device_allocator: str | None = None
    host_allocator: str | None = None
    readings: dict[str, Scalar] = field(default_factory=dict)


@dataclass
class Counts:
    """What the workload says of itself (`own_*`, per step) and how often the framework traced it.

    `own_matrix_flops` is the part of `own_flops` in products of matrices and convolutions; `traced_matrix_flops` is
    what the framework's trace of the step holds of these, counting only what depends on an input and reaches an output.
    """

    traces: int | None = None
    parameters: int | None = None
    own_flops: int | None = None
    own_matrix_flops: int | None = None
    traced_matrix_flops: int | None = None
    own_bytes: int | None = None
    examples_per_step: int | None = None


@dataclass
class Match:
    """The evidence that two trials did the same work: the first steps' losses, and hashes of the bytes that went in.

    `reference_losses` are the float64 NumPy reference's, where the trial was small enough to compute them.
    """

    losses: list[float] = field(default_factory=list)
    reference_losses: list[float] = field(default_factory=list)
    input_hash: str | None = None
    loss_last: float | None = None


@dataclass
class TrialReport:
    """All that the child measured so far; sent again after every phase, so that a crash keeps what was finished.

    `counters` are differences over the measured windows (minor and major faults, context switches, CPU seconds …); of a
    tenant also `company_windows`, those that it went on for the others' sake, and `overlapped_windows`, those measured
    while all the others were stepping too.
    `memory` is keyed by quantity: host_baseline, host_peak, device_live_peak, device_pool_peak, process_peak;
    device_memory (all that the device has, on a CPU the machine), device_total_used (of all processes on it),
    device_largest_free_block and device_fragmented_free (free memory of the pool outside that block); the last four
    at the end, or at the failure.
    """

    versions: dict[str, str] = field(default_factory=dict)
    timings: Timings = field(default_factory=Timings)
    memory: dict[str, Quantity] = field(default_factory=dict)
    allocation: AllocationResult = field(default_factory=AllocationResult)
    counts: Counts = field(default_factory=Counts)
    match: Match = field(default_factory=Match)
    counters: dict[str, float] = field(default_factory=dict)
    knobs: dict[str, Scalar] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass
class Buffer:
    """One buffer of a plan: the instruction that defines it, its bytes, and what it is for (argument, temp …)."""

    name: str
    bytes: int
    kind: str = ""


@dataclass
class Plan:
    """The compiler's plan of one step on one device, in bytes; every field None where this compiler does not say.

    `peak_bytes` is one definition for every compiler: argument + output − alias + temp + code. `raw` keeps the
    compiler's own fields. `flops` and `bytes_accessed` come from XLA's cost analysis of the module that `flops_source`
    names (a loop's body counts once there); `lowered_flops` is that analysis of the lowered module; `matrix_flops`
    counts the lowered module's products and convolutions alone, taps inside the input only, loops × trip count.
    `predicted_step_seconds` is a roofline over the chip's data sheet, never a measurement; `predicted_bound` says which
    side of it binds. `live_bytes` is the timeline over the module's schedule, at most 200 points. `bridge` says what
    lowered the step; `target` and `compiler` what it was compiled for and by; `module_hash` is the hash of the
    canonical HLO text; `cached` says that the plan was compiled earlier, in `compile_seconds`. `argument_buffers` and
    `output_buffers` are bytes by element type of the lowered module's arguments and results, one by one;
    `aliased_outputs` are the numbers of the results that reuse an argument. `note` is what a reader should know of
    how it was made: what the compiler had to be told, or that it could not be kept for another run.
    """

    argument_bytes: int | None = None
    output_bytes: int | None = None
    alias_bytes: int | None = None
    temp_bytes: int | None = None
    code_bytes: int | None = None
    peak_bytes: int | None = None
    flops: float | None = None
    bytes_accessed: float | None = None
    predicted_step_seconds: float | None = None
    usable_bytes: int | None = None
    fits: bool | None = None
    margin_bytes: int | None = None
    flops_source: str | None = None
    lowered_flops: float | None = None
    matrix_flops: int | None = None
    predicted_bound: str | None = None
    live_bytes: list[int] | None = None
    live_bytes_source: str = ""
    largest_buffers: list[Buffer] | None = None
    raw: dict[str, Scalar] = field(default_factory=dict)
    bridge: str = ""
    target: str = ""
    compiler: str = ""
    module_hash: str = ""
    compile_seconds: float | None = None
    cached: bool = False
    argument_buffers: list[int] | None = None
    output_buffers: list[int] | None = None
    aliased_outputs: list[int] | None = None
    note: str = ""


@dataclass
class Outcome:
    """How the trial ended. `reason` is one word or phrase from our code; `text` is what a person reads."""

    kind: OutcomeKind
    phase: Phase | None = None
    reason: str = ""
    text: str = ""
    exit_code: int | None = None
    signal: str | None = None
    bytes_asked: int | None = None
    bytes_available: int | None = None


@dataclass
class TrialRecord:
    """One trial, whole: what was asked, how it ended, what was measured. Written once, never changed."""

    spec: TrialSpec
    outcome: Outcome
    report: TrialReport = field(default_factory=TrialReport)
    plan: Plan | None = None
    session_id: str = ""
    provenance_hash: str = ""
    start: str = "spawn"
    started_utc: str = ""
    elapsed_seconds: float | None = None
    scrubbed_environment: tuple[str, ...] = ()
    kind: str = "trial"


@dataclass
class SessionRecord:
    """The first line of every journal file: who wrote it, on what, and the design it works through.

    `design` holds factors (key → levels), primary (the factor that pairs differ in), seed, blocks, and the conditions'
    ids in order. `provenance` describes machine and versions and holds no host name, user name or path.
    """

    session_id: str
    study: str
    started_utc: str
    provenance: dict[str, Any]
    provenance_hash: str
    design: dict[str, Any]
    schema_version: int = SCHEMA_VERSION
    kind: str = "session"
