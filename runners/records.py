"""The schema of a trial: what is asked (`TrialSpec`), what is streamed back (events), what is kept (`TrialRecord`).

Only the standard library is imported, so the parent, the children and the analysis can share this file whatever else
their interpreters hold. `runners.lines` turns these classes into lines and back.

Units stand in the names: `_bytes` are integers, `_seconds` are floats. None means "not measured"; 0 is a measurement.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1

Scalar = str | int | float | bool | None


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


# What is asked ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FrameworkSpec:
    """`name` is jax or tf; `compile` is jit, xla or graph; `python` names another interpreter (None: this one)."""

    name: str
    compile: str
    python: str | None = None


@dataclass(frozen=True)
class ChipSpec:
    """A chip's data sheet and how its compiler is told of it. All figures are per chip, but for `usable_bytes`.

    `platform` is tpu or cuda; `topology` names the TPU topology that is compiled for. A chip counts as
    `devices_per_chip` devices, and a trial uses one device: `usable_bytes` is what the compiler grants one device.
    `peak_flops` maps a number format to FLOP/s; `gpu_target` holds the figures of XLA's GPU target by their XLA names.
    """

    name: str
    platform: str
    topology: str = ""
    devices_per_chip: int = 1
    memory_bytes: int = 0
    usable_bytes: int = 0
    bandwidth_bytes_per_second: float = 0.0
    peak_flops: dict[str, float] = field(default_factory=dict)
    gpu_target: dict[str, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class DeviceSpec:
    """`kind` is cpu, gpu or tpu; `cpus` are the CPU numbers the whole trial is bound to (None: as inherited).

    `sheet` is the chip's data sheet, where a named chip is meant (always for compiled evidence, but for the CPU).
    """

    kind: str
    chip: str | None = None
    cpus: tuple[int, ...] | None = None
    sheet: ChipSpec | None = None


@dataclass(frozen=True)
class AllocationSpec:
    """An allocation mode as one framework and device understand it.

    `environment` is complete before the framework is imported; `calls` are settings of the framework's API that the
    runner applies at the right moment; `accepts` lists the effective mechanisms that satisfy the mode (empty: any).
    """

    mode: str
    fraction: float | None = None
    limit_bytes: int | None = None
    environment: dict[str, str] = field(default_factory=dict)
    calls: dict[str, Scalar] = field(default_factory=dict)
    accepts: tuple[str, ...] = ()


@dataclass(frozen=True)
class WorkloadSpec:
    """A workload page and its sizes. `shape` holds every dimension by name, resolved for the chosen size.

    `mode` is train or infer (None: the page has one step only). `path` is the user's own page, relative to the folder
    that the study runs in. `model` names a Keras model. `tracing` is how a step meets changing shapes: each_shape,
    reduce_retracing or signature (None: its shapes do not change).
    """

    name: str
    size: str
    batch_size: int
    dtype: str
    shape: dict[str, int] = field(default_factory=dict)
    donate: bool = True
    precision: str = "float32"
    mode: str | None = None
    path: str | None = None
    model: str | None = None
    tracing: str | None = None


@dataclass(frozen=True)
class ProtocolSpec:
    """How to measure. Warm-up ends when both minima are met or either cap is; seconds and steps as named.

    `deadline_seconds` maps a phase's name to the longest it may take; `total` bounds the whole trial.
    """

    name: str
    warmup_steps: int
    warmup_seconds: float
    warmup_max_steps: int
    warmup_max_seconds: float
    windows: int
    window_seconds: float
    match_steps: int
    interleave: bool
    deadline_seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Tenancy:
    """The place of a trial among trials that share a device at the same time.

    `colocation` names all of them ("jax+tf", "4*jax"), `tenant` counts them from 1 to `tenants`. `group_id` is shared
    by the tenants of one block and by no other trial. Tenants open the device together, or, where `stagger_seconds` is
    above 0, one after another, at least so far apart.
    """

    colocation: str
    tenant: int
    tenants: int
    group_id: str
    stagger_seconds: float = 0.0


@dataclass(frozen=True)
class TrialSpec:
    """One process run of one condition. `settings` is the flat condition (dotted name → value) for the table.

    `tenancy` is None for a trial that has the device to itself.
    `search` names the setting whose largest possible value is searched (batch_size), for a trial that only asks whether
    its value fits: it runs a few steps, and its times are no measurement to compare. None: an ordinary trial.
    """

    trial_id: str
    condition_id: str
    block: int
    order: int
    seed: int
    evidence: str
    framework: FrameworkSpec
    device: DeviceSpec
    allocation: AllocationSpec
    workload: WorkloadSpec
    protocol: ProtocolSpec
    settings: dict[str, Scalar] = field(default_factory=dict)
    schema_version: int = SCHEMA_VERSION
    tenancy: Tenancy | None = None
    search: str | None = None


# What comes back -------------------------------------------------------------------------------------------------


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
    `aliased_outputs` are the numbers of the results that reuse an argument.
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
