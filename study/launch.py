"""Starting a trial's process: its whole environment, its pipes, its log files.

A trial never inherits a setting that could change the allocator or the compiler: such variables are taken out of the
environment and listed by name in the record.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import runners
from runners.compiled import targets
from runners.probes import allocator_log
from runners.records import Evidence
from runners.specs import TrialSpec
from study import assigned, devices
from study.processes import TRIAL_VARIABLE, Process

#: Variables that change what is measured; a trial holds those that its condition sets and no other.
SCRUBBED_PREFIXES = (
    "XLA_", "TF_", "JAX_", "TPU_", "LIBTPU_", "MALLOC_", "TCMALLOC_", "JEMALLOC_", "MIMALLOC_", "ONEDNN_", "DNNL_",
    "KERAS_", "NCCL_", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NPROC",
)  # fmt: skip
SCRUBBED_NAMES = ("LD_PRELOAD", "GLIBC_TUNABLES", "OMP_NUM_THREADS", "PYTHONMALLOC", "PYTHONPROFILEIMPORTTIME")

PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
#: Workloads that ask for arrays on the CPU while an accelerator is the default device. Every other trial is without
#: that CPU: JAX takes it in silence where CUDA finds no device.
NEEDS_CPU_TOO = ("placement",)
EVENTS_FD, CONTROL_FD = 3, 4


@dataclass
class Pipes:
    """The parent's ends: events come in on `events`, the spec and turns go out on `control`.

    `inode` names the events' pipe in /proc, whoever holds it.
    """

    events: int
    control: int
    inode: int

    def close(self) -> None:
        """Close both ends."""
        os.close(self.events)
        os.close(self.control)


@dataclass
class ChildEnds:
    """The child's ends, to be mapped to standard output, standard error, EVENTS_FD and CONTROL_FD."""

    stdout: int
    stderr: int
    events: int
    control: int


def scrubbed(environment: dict[str, str] | None = None) -> list[str]:
    """The names that a trial does not inherit, sorted."""
    inherited = os.environ if environment is None else environment
    settings = (name for name in inherited if name.startswith(SCRUBBED_PREFIXES) or name in SCRUBBED_NAMES)
    return sorted(name for name in settings if not assigned.kept(name))


def environment(spec: TrialSpec) -> dict[str, str]:
    """The complete environment of a trial, except for its id. The same for all trials of a condition."""
    dropped = set(scrubbed())
    kept = {name: value for name, value in os.environ.items() if name not in dropped and name != TRIAL_VARIABLE}
    compiled = spec.evidence == Evidence.COMPILED
    # where JAX is not under test it is kept off the device, whoever imports it
    platform = PLATFORMS["cpu" if compiled or spec.framework.name == "tf" else spec.device.kind]
    if platform != "cpu" and spec.workload.name in NEEDS_CPU_TOO:
        platform += ",cpu"
    own = {
        # without JAX_PLATFORMS a failing backend makes JAX fall back to the CPU in silence
        "JAX_PLATFORMS": platform,
        "JAX_ENABLE_COMPILATION_CACHE": "false",
        "TF_CPP_MIN_LOG_LEVEL": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join([runners_folder(), *filter(None, [kept.get("PYTHONPATH")])]),
    }
    if compiled:
        own[targets.INTERPRETER_VARIABLE] = sys.executable
        own["TMPDIR"] = scratch_folder()
        own.update(targets.LIBTPU if spec.device.kind == "tpu" else {})
    on_gpu = spec.device.kind == "gpu" and not compiled
    own.update(_one_gpu() if on_gpu else {"CUDA_VISIBLE_DEVICES": "-1"})
    return {**kept, **own, **spec.allocation.environment}


def _one_gpu() -> dict[str, str]:
    """One GPU for the trial, numbered as the driver numbers it, and allocators that log what they are.

    Both frameworks would open every GPU that they see. A TensorFlow that is not under test cannot be kept off it by a
    variable of its own: runners.frameworks.hiding does that.
    """
    visible = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": devices.gpu_id()}
    return {**allocator_log.VERBOSE, **visible}


@cache
def runners_folder() -> str:
    """A folder that holds the package `runners` and nothing else, for the import path of any interpreter.

    The folder that `runners` is installed in may hold packages built for another interpreter than the trial's.
    """
    folder = tempfile.TemporaryDirectory(prefix="study-runners-")
    atexit.register(folder.cleanup)
    (Path(folder.name) / "runners").symlink_to(Path(str(runners.__file__)).parent, target_is_directory=True)
    return folder.name


@cache
def scratch_folder() -> str:
    """A folder for what compilers write, which a trial that was killed leaves behind; it ends with the study."""
    folder = tempfile.TemporaryDirectory(prefix="study-compilers-")
    atexit.register(folder.cleanup)
    return folder.name


def interpreter(spec: TrialSpec) -> str:
    """The Python that runs this trial."""
    return spec.framework.python or sys.executable


@contextlib.contextmanager
def child_ends(spec: TrialSpec, logs: Path) -> Iterator[tuple[ChildEnds, Pipes]]:
    """Log files and pipes of one trial. The child's ends are closed here when the block ends; the parent's are kept.

    The log files are logs/TRIAL.out and logs/TRIAL.err, new for every attempt.
    """
    from_child, events = os.pipe2(os.O_CLOEXEC)
    control, to_child = os.pipe2(os.O_CLOEXEC)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
    opened = [events, control]
    try:
        for suffix in ("out", "err"):
            opened.append(os.open(logs / f"{spec.trial_id}.{suffix}", flags, 0o644))
        yield ChildEnds(opened[2], opened[3], events, control), Pipes(from_child, to_child, os.fstat(events).st_ino)
    except BaseException:
        os.close(from_child)
        os.close(to_child)
        raise
    finally:
        for handle in opened:
            os.close(handle)


def spawn(spec: TrialSpec, ends: ChildEnds) -> Process:
    """A fresh interpreter running `python -m runners`.

    Raises:
        OSError: the interpreter could not be started.
    """
    # -P keeps the current folder off the import path, where a user's random.py would shadow the library's
    command = [interpreter(spec), "-P", "-m", "runners", str(EVENTS_FD), str(CONTROL_FD)]
    variables = {**environment(spec), TRIAL_VARIABLE: spec.trial_id}
    return spawn_process(command, variables, [ends.stdout, ends.stderr, ends.events, ends.control])


def spawn_process(command: list[str], variables: dict[str, str], handles: list[int]) -> Process:
    """A process in a session of its own, with nothing as standard input and `handles` on descriptors 1, 2, 3 …

    Raises:
        OSError: the program could not be started.
    """
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        pid = os.posix_spawn(command[0], command, variables, file_actions=_descriptors([null, *handles]), setsid=True)
    finally:
        os.close(null)
    return Process(pid, os.pidfd_open(pid))


def _descriptors(sources: list[int]) -> list[tuple[int, ...]]:
    """File actions that put sources on 0, 1, 2 … through high numbers, so that none is overwritten on the way."""
    base = 1 + max([64, *sources])
    lifted = [(os.POSIX_SPAWN_DUP2, source, base + target) for target, source in enumerate(sources)]
    placed = [(os.POSIX_SPAWN_DUP2, base + target, target) for target in range(len(sources))]
    closed = [(os.POSIX_SPAWN_CLOSE, base + target) for target in range(len(sources))]
    return [*lifted, *placed, *closed]
