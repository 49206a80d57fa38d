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
from collections.abc import Mapping
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np

from runners import company, contract, frameworks, protocol, workloads
from runners.channel import Channel
from runners.compiled.trial import run_compiled
from runners.faults import TrialFault
from runners.frameworks.base import Program, Tree, uncompiled
from runners.probes import allocation, host, malloc, nvml
from runners.records import Barrier, Evidence, Phase, Quantity, TrialReport
from runners.specs import TrialSpec, WorkloadSpec
from runners.steady import STEADY, steady_memory
from runners.stepper import Stepper
from runners.work import require_real_work
from runners.workloads.page import Drawn, InputHash, Problem, made, require_dtype


def run_trial(spec: TrialSpec, channel: Channel) -> int:
    """Run the trial and tell the parent how it went. The process's exit status: 0 ok, 1 failed."""
    if spec.evidence == Evidence.COMPILED:
        return run_compiled(spec, channel)
    trial = Trial(spec, channel)
    try:
        trial.import_framework()
        trial.place()
        trial.probe()
        trial.compile()
        trial.first_step()
        trial.warm_up()
        if spec.search is None:
            trial.calibrate()
            trial.measure()
        trial.tear_down()
    except BaseException as error:  # a workload may raise anything, SystemExit too; the parent classifies it
        trial.read_host_peak()
        trial.read_memory_at_failure()
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
        self._opened = False

    def import_framework(self) -> None:
        """Import the framework (nothing to do in a zygote's child), then take the host baseline."""
        self._begin(Phase.IMPORT)
        _bind(self.spec.device.cpus)
        began = time.monotonic()
        self.runner = frameworks.load(self.spec.framework.name)
        self.report.timings.import_seconds = time.monotonic() - began
        self.page = workloads.load(self.spec.workload)
        self._step = workloads.step(self.page, self.spec.workload, self.spec.framework, self.spec.device.kind)
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

        A tenant waits for the others first, as a backend may reserve its memory when it is created.
        Each NumPy original is made just before it is placed and dropped just after; the high-water mark is reset in the
        end, so the host peak holds the placed inputs and never the originals.
        """
        if self.spec.tenancy is not None:
            self.channel.meet(Barrier.DEVICE)
        self._begin(Phase.PLACE)
        workload, report = self.spec.workload, self.report
        began = time.monotonic()
        self.runner.open_device(self.spec)
        self._opened = True
        opened = time.monotonic() - began
        report.knobs = {**self.runner.knobs(), "precision": workload.precision, "donate": workload.donate}
        if self.spec.device.kind == "cpu" and workload.precision != "float32":
            report.warnings.append(f"precision {workload.precision} has no effect on a CPU")
        problem = self._describe_problem()
        hashed, report.timings.place_seconds = InputHash(), opened
        self._state = self._put(problem.state, hashed, in_place=workload.donate and self.page.COMPILED)
        self._batch, *self._more_batches = [self._put(batch, hashed, in_place=False) for batch in problem.batches]
        report.match.input_hash = hashed.digits()
        # JAX lets go of a NumPy original at the next garbage collection only
        gc.collect()
        malloc.hand_back(self._malloc)
        self._peak_problem = host.reset_peak()

    def _describe_problem(self) -> Problem:
        """The inputs, and all that is said of them: the work of a step, and the reference losses if cheap."""
        workload, counts = self.spec.workload, self.report.counts
        require_dtype(workload.dtype, workload.name, self.page.SUPPORTED_DTYPES)
        work = self._work = contract.counts_of(self.page, workload)
        counts.parameters, counts.own_flops, counts.own_bytes = work.parameters, work.flops, work.bytes
        counts.examples_per_step, counts.own_matrix_flops = work.examples, work.matrix_flops
        self.report.warnings += self.page.notes(workload)
        problem = contract.problem_of(self.page, workload, self.spec.seed)
        if workload.size == "tiny":
            steps = self.spec.protocol.match_steps
            self.report.match.reference_losses = reference_losses(self.page, workload, problem, steps)
        return problem

    def _put(self, arrays: Mapping[str, np.ndarray | Drawn], hashed: InputHash, *, in_place: bool) -> Tree:
        placed, timings = {}, self.report.timings
        for name in sorted(arrays):
            array = made(arrays[name])
            hashed.add(name, array)
            began = time.monotonic()
            placed[name] = self.runner.place(array, in_place=in_place)
            timings.place_seconds = (timings.place_seconds or 0.0) + time.monotonic() - began
        return placed

    def probe(self) -> None:
        """Prove the allocation mode, or end here."""
        self._begin(Phase.PROBE)
        self.report.allocation = allocation.probe(self.spec, self.runner, self._malloc)
        allocation.require_accepted(self.spec.allocation, self.report.allocation)
        if self.spec.device.kind == "gpu":
            # what the probe took on the host is no part of the trial
            self._peak_problem = host.reset_peak()

    def compile(self) -> None:
        """Trace the page's step, and compile it as far as the framework does so apart from the first call."""
        self._begin(Phase.COMPILE)
        self._resident_before_compiling = host.resident_bytes()
        began = time.monotonic()
        program = self._build_program()
        self._compile_phase_seconds = time.monotonic() - began
        if program.work is not None:
            self.report.counts.traced_matrix_flops = program.work.needed
            where = self.spec.workload.path or self.spec.workload.name
            self.report.warnings += require_real_work(program.work, self._work, where)
        timings = self.report.timings
        timings.trace_seconds, timings.lower_seconds = program.trace_seconds, program.lower_seconds
        timings.compile_seconds = program.compile_seconds
        timings.compile_method = "first_minus_second_call" if program.first_call_compiles else "ahead_of_time"
        self._stepper = Stepper(self.runner, program, self._state)
        self._state = {}

    def _build_program(self) -> Program:
        workload = self.spec.workload
        if not self.page.COMPILED:
            return uncompiled(self._step, self._batch)
        more: dict[str, Any] = {}
        if self._more_batches:
            more = {"more_batches": self._more_batches, "tracing": workload.tracing}
        return self.runner.compile(self._step, self._state, self._batch, donate=workload.donate, **more)

    def first_step(self) -> None:
        """The first step's time, and the losses of the steps that prove the match."""
        self._begin(Phase.FIRST_STEP)
        match_steps = self.spec.protocol.match_steps
        protocol.first_steps(self._stepper, match_steps, self.report, self._compile_phase_seconds)
        losses = self.report.match.losses
        if self.page.COMPILED and len(losses) > 1 and len(set(losses)) == 1:
            text = f"the first {len(losses)} losses are all {losses[0]:g}, which proves no match: "
            self.report.warnings.append(text + "does the loss depend on a state that the step returns changed?")
        if self._stepper.program.cycle > 1:
            self.report.memory["retrace_caches"] = self._growth_since_compiling()

    def _growth_since_compiling(self) -> Quantity:
        """What the program and everything cached with it hold, every shape compiled; malloc's spare memory left out."""
        gc.collect()
        malloc.hand_back(self._malloc)
        grown = host.resident_bytes() - self._resident_before_compiling
        return Quantity(grown, "growth of Rss of /proc/self/smaps_rollup since before the first trace")

    def warm_up(self) -> None:
        """Steps until the protocol's minima are met, each timed and kept."""
        self._begin(Phase.WARMUP)
        protocol.warm_up(self._stepper, self.spec.protocol, self.report)
        protocol.require_traces(self.report.counts.traces or 0, self._declared_traces())

    def calibrate(self) -> None:
        """Prove that synchronising waits, then freeze the number of steps per window."""
        self._begin(Phase.CALIBRATE)
        protocol.calibrate(self._stepper, self.spec.protocol, self.report)
        protocol.require_traces(self._stepper.program.traces(), self._declared_traces())

    def _declared_traces(self) -> int:
        return self.page.traces(self.spec.workload, self.spec.framework) if self.page.COMPILED else 0

    def measure(self) -> None:
        """The windows (the phase begins with the first granted turn), then the last loss.

        Tenants begin their windows together, and step on until the last of them is done.
        """
        self.channel.report(self.report)
        if self.spec.tenancy is not None:
            self.channel.phase(Phase.WAIT)
            self.channel.meet(Barrier.WINDOWS)
        protocol.measure(self._stepper, self.spec.protocol, self.channel, self.report)
        self.report.match.loss_last = self._stepper.loss()
        if not math.isfinite(self.report.match.loss_last):
            self.report.warnings.append(f"the last loss is {self.report.match.loss_last}")
        if self.spec.tenancy is not None:
            company.keep(self._stepper, self.channel, self.report)

    def tear_down(self) -> None:
        """Read the peaks while everything is still there, then drop it all."""
        self._begin(Phase.TEARDOWN)
        self.read_device_memory()
        self.read_host_peak()
        self._read_steady_memory()
        self.release()
        self.channel.report(self.report)

    def _read_steady_memory(self) -> None:
        """The memory of one step alone, where host memory is the device's and is given back when it is freed."""
        program, workload = self._stepper.program, self.spec.workload
        # a pool keeps what a step has freed, so that no second baseline is without it
        unpooled = self.report.allocation.device_allocator == "posix_memalign"
        if self.spec.device.kind != "cpu" or program.renew is None or not unpooled or self.spec.search is not None:
            reason = "measured on a CPU only, where no pool lies above malloc, of a step that can give up its state"
            self.report.memory.update(dict.fromkeys(STEADY, Quantity(None, reason)))
            return
        del self._stepper

        def place_state() -> Tree:
            state = self.page.inputs(workload, self.spec.seed).state
            return {name: self.runner.place(made(state[name]), in_place=workload.donate) for name in sorted(state)}

        self.report.memory.update(steady_memory(self.runner, program, place_state, self._malloc))

    def read_device_memory(self) -> None:
        """What the framework, the driver and the machine say of the device, with everything still in place."""
        kind, memory = self.spec.device.kind, self.report.memory
        memory.update(self.runner.device_memory())
        memory.update(nvml.memory(kind))
        if kind == "cpu":
            memory["device_total_used"], memory["device_memory"] = host.machine_used(), host.machine_memory()

    def read_memory_at_failure(self) -> None:
        """The same after a failure, if the device was open: what was live, and the largest free block of the pool."""
        if not self._opened:
            return
        try:
            self.read_device_memory()
        except Exception as error:  # a device that failed may fail again; the first failure is the one to report
            self.report.warnings.append(f"device memory not read after the failure: {type(error).__name__}: {error}")

    def read_host_peak(self) -> None:
        """Highest resident memory since the inputs were placed (before that: since the baseline)."""
        problem = getattr(self, "_peak_problem", "host peak not measured: the trial ended before its baseline")
        self.report.memory["host_peak"] = Quantity(None, problem) if problem else host.peak()
        if problem and problem not in self.report.warnings:
            self.report.warnings.append(problem)

    def release(self) -> None:
        """Drop every array and the compiled step, after a good end or a bad one."""
        gc.enable()
        names = ("_state", "_batch", "_more_batches", "_step", "_stepper")
        held = [self.__dict__.pop(name) for name in names if name in self.__dict__]
        if held:
            held.clear()
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


def reference_losses(page: ModuleType, workload: WorkloadSpec, problem: Problem, steps: int) -> list[float]:
    """The losses of the first `steps` steps by the page's float64 reference, or as many as it gives."""
    return [loss for _, loss in islice(page.reference(workload, problem), steps)]
