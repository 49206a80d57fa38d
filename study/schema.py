"""The shape of the configuration: what Hydra and OmegaConf check before anything of ours runs.

Every field carries its unit and meaning in its metadata; `study.help` prints them. A level of a group is a file under
conf/, and these classes are what such a file may hold.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Optional

from hydra.core.config_store import ConfigStore

# OmegaConf resolves these annotations itself and wants Optional[...] on every supported Python.
# ruff: noqa: UP045


def setting(default: Any, meaning: str, unit: str = "") -> Any:
    """A dataclass field with its meaning and unit; mutable defaults are copied."""
    metadata = {"meaning": meaning, "unit": unit}
    if isinstance(default, dict | list):
        return field(default_factory=lambda: default.copy(), metadata=metadata)
    return field(default=default, metadata=metadata)


class DeviceKind(Enum):
    cpu = "cpu"
    gpu = "gpu"
    tpu = "tpu"


class Size(Enum):
    tiny = "tiny"
    default = "default"
    paper = "paper"


class DType(Enum):
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"


class Precision(Enum):
    float32 = "float32"
    tf32 = "tf32"
    bfloat16 = "bfloat16"


class Mode(Enum):
    train = "train"
    infer = "infer"


class Tracing(Enum):
    each_shape = "each_shape"
    reduce_retracing = "reduce_retracing"
    signature = "signature"


class EvidenceRequest(Enum):
    auto = "auto"
    measured = "measured"
    compiled = "compiled"


class Search(Enum):
    batch_size = "batch_size"


class Pairing(Enum):
    node = "node"
    none = "none"


class Start(Enum):
    auto = "auto"
    zygote = "zygote"
    spawn = "spawn"


@dataclass
class Framework:
    name: str = setting("jax", "the framework under test")
    compile: str = setting("jit", "jit (JAX), xla or graph (TensorFlow)")
    python: Optional[str] = setting(
        None, "another interpreter that holds the framework; null = the study's own", "path"
    )


@dataclass
class Device:
    kind: DeviceKind = setting(DeviceKind.cpu, "where the arrays live")
    cpus: Optional[int] = setting(None, "CPU cores that a trial is bound to; null = all the study may use", "cores")


@dataclass
class Chip:
    """A data sheet, per chip; `usable_bytes` per device. A compiler lists `devices_per_chip` devices for a chip."""

    name: str = setting("auto", "auto = the chip that is found, else v5e (tpu) or h100 (gpu)")
    device: Optional[DeviceKind] = setting(None, "the device this is a chip of; null = any")
    topology: str = setting("", "the TPU topology that is compiled for, by libtpu's name")
    devices_per_chip: int = setting(1, "devices that the compiler lists for one chip", "devices")
    memory_bytes: int = setting(0, "memory of the chip", "bytes")
    usable_bytes: int = setting(0, "what the compiler grants one device", "bytes")
    bandwidth_bytes_per_second: float = setting(0.0, "peak memory bandwidth of the chip", "bytes/s")
    peak_flops: dict[str, float] = setting({}, "peak rate of the chip by number format", "FLOP/s")
    gpu_target: dict[str, Any] = setting({}, "figures of XLA's GPU target, by their XLA names")
    found_as: list[str] = setting([], "how the machine names it: the driver's model name, or a PCI device id")


@dataclass
class Preload:
    libraries: list[str] = setting([], "file names tried in order")
    package: str = setting("", "the Debian package that brings it")


@dataclass
class AllocationEntry:
    """What one framework does on one device for a mode. `capped_*` apply where a fraction or limit is given."""

    not_applicable: Optional[str] = setting(None, "why the mode has no meaning here")
    environment: dict[str, str] = setting({}, "variables set before the import")
    capped_environment: dict[str, str] = setting({}, "further variables with a cap; {fraction}, {limit_mib} filled in")
    uncapped_environment: dict[str, str] = setting({}, "further variables without a cap")
    capped_calls: dict[str, str] = setting({}, "API settings with a cap")
    uncapped_calls: dict[str, Any] = setting({}, "API settings without a cap")
    preload: Optional[Preload] = setting(None, "a library to preload")
    accepts: list[str] = setting([], "effective mechanisms that satisfy the mode; empty = any")
    capped_accepts: list[str] = setting([], "the same with a cap; empty = as accepts")
    note: str = setting("", "what a reader should know")


@dataclass
class Allocation:
    name: str = setting("default", "the canonical allocation mode")
    fraction: Optional[float] = setting(
        None, "cap, of the device's memory (CPU: of physical memory)", "0 < f ≤ 1; unified: f > 1"
    )
    limit_bytes: Optional[int] = setting(None, "cap, as an amount; not together with fraction", "bytes")
    oversubscribed: bool = setting(False, "the mode pages to the host: its fraction is above 1, and must be given")
    frameworks: dict[str, dict[str, Any]] = setting({}, "framework → device → AllocationEntry")


@dataclass
class Workload:
    name: str = setting("mlp", "the workload's page under runners/workloads")
    size: Size = setting(Size.default, "tiny (tests), default (two cores), paper (an accelerator)")
    batch_size: Optional[int] = setting(None, "work per step; null = the size's own", "examples")
    dtype: DType = setting(DType.float32, "element type of state and batch")
    donate: bool = setting(True, "let a step reuse the memory of the state it consumes")
    precision: Precision = setting(
        Precision.float32, "matmul precision of float32 inputs, set alike in both frameworks"
    )
    mode: Optional[Mode] = setting(None, "of a model: a training step or an inference step", "train | infer")
    path: Optional[str] = setting(None, "with workload=file: your own page", "path of a Python file")
    model: Optional[str] = setting(None, "with workload=keras: a model of keras.applications", "ResNet50, …")
    tracing: Optional[Tracing] = setting(
        None,
        "with changing shapes: how tf.function meets them (JAX has each_shape only)",
        "each_shape | reduce_retracing | signature",
    )
    modes: list[str] = setting([], "the modes that the page has; empty = one step only")
    shape: dict[str, Optional[int]] = setting({}, "dimensions by name; null = the size's own", "elements")
    # integers by name, by size; OmegaConf cannot merge two levels of typed dicts, as a level built on another needs
    sizes: dict[str, Any] = setting({}, "what each size means")


@dataclass
class Protocol:
    name: str = setting("quick", "how to measure")
    blocks: int = setting(5, "replicates of every condition", "trials")
    max_blocks: int = setting(5, "cap where half_width asks for more blocks", "trials")
    half_width: Optional[float] = setting(
        None, "go on until every ratio's 95 % half-width is at most this", "share, 0.01 = 1 %"
    )
    warmup_steps: int = setting(30, "at least so many", "steps")
    warmup_seconds: float = setting(0.5, "and at least so long", "seconds")
    warmup_max_steps: int = setting(300, "never more", "steps")
    warmup_max_seconds: float = setting(10.0, "nor longer", "seconds")
    windows: int = setting(15, "windows of K steps timed together", "windows")
    window_seconds: float = setting(0.12, "the least a window lasts", "seconds")
    match_steps: int = setting(10, "first steps whose losses are kept and compared", "steps")
    interleave: Optional[bool] = setting(
        None, "compared trials take turns window by window; null = on the CPU, not on an accelerator"
    )
    start: Start = setting(Start.auto, "fork from a zygote that has imported the framework, or spawn an interpreter")
    deadlines: dict[str, float] = setting(
        {},
        "longest a phase, and the trial in total, may take; a compiled plan: compile and total twice that",
        "seconds",
    )


@dataclass
class Study:
    name: Optional[str] = setting(None, "folder under outputs/; null = date, time, workload and a random tail")
    seed: int = setting(0, "block order, inputs and weights derive from it", "integer ≥ 0")
    blocks: Optional[int] = setting(
        None, "replicates of every condition; null = the protocol's (1 without -m)", "trials"
    )
    primary: Optional[str] = setting(None, "the factor that pairs differ in; null = framework, else the first swept")
    resume: Optional[str] = setting(None, "an earlier study's folder: run what is missing or failed there", "path")
    report: bool = setting(True, "analyse at the end: tables, figures, report, and the check that pairs match")
    dry_run: bool = setting(False, "list the conditions and the estimated time, run nothing")
    search: Optional[Search] = setting(
        None,
        "find the largest batch that fits a chip (compiled) or a cap (measured); blocks then default to 1",
        "batch_size",
    )
    max_seconds: Optional[float] = setting(None, "stop between trials after so long; null = no bound", "seconds")
    pairing: Pairing = setting(
        Pairing.node, "on a cluster: a block's conditions on one node, or on any (then unlike nodes are not compared)"
    )
    trials_per_job: Optional[int] = setting(
        None, "with pairing=none: trials that go out as one job; null = one, or one group that takes turns", "trials"
    )
    batch: Optional[str] = setting(None, "set by the sweeper for its own jobs")


@dataclass
class Settings:
    framework: Framework = field(default_factory=Framework)
    device: Device = field(default_factory=Device)
    chip: Chip = field(default_factory=Chip)
    allocation: Allocation = field(default_factory=Allocation)
    workload: Workload = field(default_factory=Workload)
    protocol: Protocol = field(default_factory=Protocol)
    study: Study = field(default_factory=Study)
    evidence: EvidenceRequest = setting(
        EvidenceRequest.auto, "measure where the device is present, else compile for it; or force either"
    )
    colocation: str = setting(
        "solo", "trials that share the device at the same time; each is a tenant", "solo | jax+jax | jax+tf | 4*jax | …"
    )
    colocation_stagger_seconds: float = setting(
        0.0, "0 = tenants open the device together; else one after another, at least so far apart", "seconds ≥ 0"
    )


GROUPS = {
    section.name: section.default_factory
    for section in dataclasses.fields(Settings)
    if section.name != "study" and section.default_factory is not dataclasses.MISSING
}


def register() -> None:
    """Make the schema known to Hydra as the config named `schema`."""
    ConfigStore.instance().store(name="schema", node=Settings)
