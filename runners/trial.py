"""A trial's whole life on one page, whatever started the process: spawned by the study, or forked from a zygote.

The environment is complete before this process starts; here only the CPU affinity is set, before the import. What was
measured is reported after every phase, so that a crash keeps the finished phases.
"""

from __future__ import annotations

import gc
import importlib.metadata
import math
import os
import platform
import time
from itertools import islice

from runners import frameworks, protocol, workloads
from runners.channel import Channel
from runners.faults import TrialFault
from runners.frameworks.base import Tree
from runners.probes import allocation, host, malloc, nvml
from runners.records import Phase, Quantity, TrialReport, TrialSpec
from runners.stepper import Stepper
from runners.workloads.page import Arrays, Problem, input_hash, require_dtype


def run_trial(spec: TrialSpec, channel: Channel) -> int:
    """Run the trial and tell the parent how it went. The process's exit status: 0 ok, 1 failed."""
    trial = Trial(spec, channel)
    try:
        trial.import_framework()
        trial.place()
        trial.probe()
        trial.compile()
        trial.first_step()
        trial.warm_up()
        trial.calibrate()
        trial.measure()
        trial.tear_down()
    except BaseException as error:  # a workload may raise anything, SystemExit too; the parent classifies it
        trial.read_host_peak()
        channel.report(trial.report)
        channel.failed(error)
        return 1
    else:
        channel.done()
        return 0
    finally:
        trial.release()


class Trial:
    """The phases in their order, each filling its part of the report."""

    def __init__(self, spec: TrialSpec, channel: Channel) -> None:
        self.spec = spec
        self.channel = channel
        self.report = TrialReport()

    def import_framework(self) -> None:
        """Import the framework (nothing to do in a zygote's child), then take the host baseline."""
        self._begin(Phase.IMPORT)
        _bind(self.spec.device.cpus)
        began = time.monotonic()
        self.runner = frameworks.load(self.spec.framework.name)
        self.report.timings.import_seconds = time.monotonic() - began
        self.page = workloads.load(self.spec.workload.name)
        self.report.versions = {
            **self.runner.versions(),
            "numpy": importlib.metadata.version("numpy"),
            "python": platform.python_version(),
        }
        self._take_baseline()

    def _take_baseline(self) -> None:
        """The allocator probe goes first: it takes memory that neither baseline nor peak may hold.

        Memory that malloc merely keeps for later is handed back, here and after placing, so that it counts nowhere.
        """
        self._malloc = malloc.probe_host_allocator()
        host.settle(self.report.warnings)
        malloc.hand_back(self._malloc)
        self.report.memory["host_baseline"] = host.baseline()
        self._peak_problem = host.reset_peak()

    def place(self) -> None:
        """Create the backend, make the inputs in NumPy, and put them on the device one by one.

        Each NumPy original is dropped as soon as it is placed and the high-water mark is reset afterwards, so the host
        peak holds the placed inputs and never the originals.
        """
        self._begin(Phase.PLACE)
        workload, report = self.spec.workload, self.report
        began = time.monotonic()
        self.runner.open_device(self.spec)
        opened = time.monotonic() - began
        report.knobs = {**self.runner.knobs(), "precision": workload.precision, "donate": workload.donate}
        if self.spec.device.kind == "cpu" and workload.precision != "float32":
            report.warnings.append(f"precision {workload.precision} has no effect on a CPU")
        problem = self._make_problem()
        began = time.monotonic()
        self._state = self._put(problem.state, in_place=workload.donate)
        self._batch = self._put(problem.batch, in_place=False)
        report.timings.place_seconds = opened + time.monotonic() - began
        malloc.hand_back(self._malloc)
        self._peak_problem = host.reset_peak()

    def _make_problem(self) -> Problem:
        """The inputs, and all that is said of them: their hash, the work of a step, the reference losses if cheap."""
        workload, counts, match = self.spec.workload, self.report.counts, self.report.match
        require_dtype(workload.dtype, workload.name, self.page.SUPPORTED_DTYPES)
        work = self.page.counts(workload)
        counts.parameters, counts.own_flops, counts.own_bytes = work.parameters, work.flops, work.bytes
        counts.examples_per_step = work.examples
        problem = self.page.inputs(workload, self.spec.seed)
        match.input_hash = input_hash(problem)
        if workload.size == "tiny":
            match.reference_losses = reference_losses(self.page, problem, self.spec.protocol.match_steps)
        return problem

    def _put(self, arrays: Arrays, *, in_place: bool) -> Tree:
        return {name: self.runner.place(arrays.pop(name), in_place=in_place) for name in sorted(arrays)}

    def probe(self) -> None:
        """Prove the allocation mode, or end here."""
        self._begin(Phase.PROBE)
        self.report.allocation = allocation.probe(self.spec, self.runner, self._malloc)
        allocation.require_accepted(self.spec.allocation, self.report.allocation)

    def compile(self) -> None:
        """Trace the page's step, and compile it as far as the framework does so apart from the first call."""
        self._begin(Phase.COMPILE)
        step = getattr(self.page, f"{self.runner.name}_step")()
        began = time.monotonic()
        program = self.runner.compile(step, self._state, self._batch, donate=self.spec.workload.donate)
        self._compile_phase_seconds = time.monotonic() - began
        timings = self.report.timings
        timings.trace_seconds, timings.lower_seconds = program.trace_seconds, program.lower_seconds
        timings.compile_seconds = program.compile_seconds
        timings.compile_method = "first_minus_second_call" if program.first_call_compiles else "ahead_of_time"
        self._stepper = Stepper(self.runner, program, self._state)
        self._state = {}

    def first_step(self) -> None:
        """The first step's time, and the losses of the steps that prove the match."""
        self._begin(Phase.FIRST_STEP)
        match_steps = self.spec.protocol.match_steps
        protocol.first_steps(self._stepper, match_steps, self.report, self._compile_phase_seconds)

    def warm_up(self) -> None:
        """Steps until the protocol's minima are met, each timed and kept."""
        self._begin(Phase.WARMUP)
        protocol.warm_up(self._stepper, self.spec.protocol, self.report)
        protocol.require_one_trace(self.report.counts.traces or 0)

    def calibrate(self) -> None:
        """Prove that synchronising waits, then freeze the number of steps per window."""
        self._begin(Phase.CALIBRATE)
        protocol.calibrate(self._stepper, self.spec.protocol, self.report)
        protocol.require_one_trace(self._stepper.program.traces())

    def measure(self) -> None:
        """The windows (the phase begins with the first granted turn), then the last loss."""
        self.channel.report(self.report)
        protocol.measure(self._stepper, self.spec.protocol, self.channel, self.report)
        self.report.match.loss_last = self._stepper.loss()
        if not math.isfinite(self.report.match.loss_last):
            self.report.warnings.append(f"the last loss is {self.report.match.loss_last}")

    def tear_down(self) -> None:
        """Read the peaks while everything is still there, then drop it all."""
        self._begin(Phase.TEARDOWN)
        self.report.memory.update(self.runner.device_memory())
        self.report.memory["process_peak"] = nvml.process_memory(self.spec.device.kind)
        self.read_host_peak()
        self.release()
        self.channel.report(self.report)

    def read_host_peak(self) -> None:
        """Highest resident memory since the inputs were placed (before that: since the baseline)."""
        problem = getattr(self, "_peak_problem", "host peak not measured: the trial ended before its baseline")
        self.report.memory["host_peak"] = Quantity(None, problem) if problem else host.peak()
        if problem and problem not in self.report.warnings:
            self.report.warnings.append(problem)

    def release(self) -> None:
        """Drop every array and the compiled step, after a good end or a bad one."""
        gc.enable()
        for name in ("_state", "_batch", "_stepper"):
            self.__dict__.pop(name, None)
        gc.collect()

    def _begin(self, phase: Phase) -> None:
        """Report what the phase before has measured, and begin the next."""
        if self.channel.current_phase is not None:
            self.channel.report(self.report)
        self.channel.phase(phase)


def _bind(cpus: tuple[int, ...] | None) -> None:
    """Bind the process to `cpus` before any thread pool is sized by them; `TrialFault` where one is not there."""
    available = os.sched_getaffinity(0)
    if cpus and not available.issuperset(cpus):
        raise TrialFault(
            "unavailable",
            "CPU not available",
            f"the trial asks for CPUs {list(cpus)}, but this process may use {sorted(available)} only.",
        )
    if cpus:
        os.sched_setaffinity(0, cpus)


def reference_losses(page: object, problem: Problem, steps: int) -> list[float]:
    """The losses of the first `steps` steps by the page's float64 reference."""
    return [loss for _, loss in islice(page.reference(problem), steps)]  # type: ignore[attr-defined]
