"""The schema of a trial, what is asked: one condition of a study with everything resolved, as its process gets it.

Only the standard library is imported, as in `runners.records`, which holds what comes back.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA_VERSION = 1

Scalar = str | int | float | bool | None


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
