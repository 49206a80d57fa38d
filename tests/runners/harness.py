"""Runs `python -m runners` as a real process and plays the parent: sends the spec, grants turns, keeps the events."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from runners import lines
from runners.records import TrialReport
from runners.specs import AllocationSpec, DeviceSpec, FrameworkSpec, ProtocolSpec, TrialSpec, WorkloadSpec

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
MIB = 2**20

PROTOCOL = ProtocolSpec(
    name="test",
    warmup_steps=20,
    warmup_seconds=0.0,
    warmup_max_steps=40,
    warmup_max_seconds=30.0,
    windows=3,
    window_seconds=0.02,
    match_steps=10,
    interleave=False,
)
#: The variables that every trial of a framework gets, as the study would set them.
ENVIRONMENT = {"jax": {"JAX_PLATFORMS": "cpu"}}
RETAIN = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "MALLOC_TOP_PAD_": "536870912",
}
#: What makes TensorFlow say its CPU allocator's limit.
LIMIT_LOG = {"TF_CPP_MIN_LOG_LEVEL": "0", "TF_CPP_VMODULE": "process_state=2"}


@dataclass
class Run:
    """What a child did: exit status, events in order, and the text of its log files."""

    status: int
    events: list[dict[str, Any]]
    stdout: str
    stderr: str

    @property
    def report(self) -> TrialReport:
        """The last report sent."""
        return lines.report_from_dict([event for event in self.events if event["event"] == "report"][-1]["report"])

    @property
    def failure(self) -> dict[str, Any]:
        """The failure sent."""
        return next(event["failure"] for event in self.events if event["event"] == "failed")

    @property
    def phases(self) -> list[str]:
        """The phases in the order in which they began."""
        return [event["phase"] for event in self.events if event["event"] == "phase"]


def workload(name: str = "mlp", size: str = "tiny", **changes: Any) -> WorkloadSpec:
    """The workload as conf/workload has it at that size."""
    conf = yaml.safe_load((ROOT / f"conf/workload/{name}.yaml").read_text())
    shape = dict(conf["sizes"][size])
    own = {key: conf[key] for key in ("donate", "mode", "model", "tracing") if conf.get(key) is not None}
    spec = WorkloadSpec(conf["name"], size, shape.pop("batch_size"), "float32", shape)
    return replace(spec, **{**own, **changes})


def make_spec(framework: str = "jax", compile: str | None = None, **changes: Any) -> TrialSpec:
    """A spec of a short trial on the CPU; `changes` replace its fields."""
    spec = TrialSpec(
        trial_id="t",
        condition_id="c",
        block=0,
        order=0,
        seed=7,
        evidence="measured",
        framework=FrameworkSpec(framework, compile or {"jax": "jit", "tf": "xla"}[framework]),
        device=DeviceSpec("cpu"),
        allocation=AllocationSpec("default"),
        workload=workload(),
        protocol=PROTOCOL,
    )
    return replace(spec, **changes)


def environment(framework: str, extra: dict[str, str] | None = None) -> dict[str, str]:
    """A child's whole environment: nothing of ours but PATH."""
    return {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **ENVIRONMENT.get(framework, {}), **(extra or {})}


def run_trial(spec: TrialSpec, module: Sequence[str] = ("-m", "runners"), launcher: Sequence[str] = ()) -> Run:
    """The whole trial in a new process. `module`: a script in place of the package; `launcher`: a parent's command."""
    events_read, events_write = os.pipe()
    control_read, control_write = os.pipe()
    command = [*launcher, sys.executable, *module, str(events_write), str(control_read)]
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        child = subprocess.Popen(
            command,
            stdout=stdout,
            stderr=stderr,
            cwd=ROOT,
            env=environment(spec.framework.name, spec.allocation.environment),
            pass_fds=(events_write, control_read),
        )
        os.close(events_write)
        os.close(control_read)
        with os.fdopen(control_write, "w") as control, os.fdopen(events_read) as told:
            control.write(lines.encode_line(spec))
            control.flush()
            events = [_answered(lines.decode_line(line), control) for line in told]
        status = child.wait()
        stdout.seek(0)
        stderr.seek(0)
        return Run(status, events, stdout.read(), stderr.read())


def _answered(event: dict[str, Any], control: Any) -> dict[str, Any]:
    if event["event"] in ("turn", "ready"):
        control.write("go\n")
        control.flush()
    return event


def run_script(name: str, *arguments: str, framework: str = "", extra: dict[str, str] | None = None) -> Any:
    """What a script beside this file prints as JSON on its last line, run in a process of its own."""
    with tempfile.TemporaryFile("w+") as stderr:  # a file, as the study's logs are: the probe reads its own stderr
        done = subprocess.run(
            [sys.executable, str(HERE / name), *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=ROOT,
            env=environment(framework, extra),
            check=False,
        )
        stderr.seek(0)
        assert done.returncode == 0, stderr.read()
    return json.loads(done.stdout.splitlines()[-1])
