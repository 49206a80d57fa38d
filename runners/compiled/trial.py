"""A trial of compiled evidence, whole: import the framework, lower its step, have it compiled, report the plan.

The phases are import (the compiler starts beside it), place (shapes only: nothing is placed) and compile.
"""

from __future__ import annotations

import importlib.metadata
import platform
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runners import contract, frameworks, workloads
from runners.channel import Channel
from runners.compiled import plan
from runners.compiled.process import CompilerProcess
from runners.faults import TrialFault
from runners.frameworks.base import ArrayShape, Shapes
from runners.records import Phase, TrialReport
from runners.specs import TrialSpec
from runners.workloads.page import require_dtype


def run_compiled(spec: TrialSpec, channel: Channel) -> int:
    """Run the trial and tell the parent how it went. The process's exit status: 0 ok, 1 failed."""
    trial = CompiledTrial(spec, channel)
    channel.phase(Phase.IMPORT)
    try:
        with CompilerProcess(spec.device.sheet) as compiler:
            trial.import_framework()
            trial.describe()
            trial.compile(compiler)
    except BaseException as error:  # a page or a framework may raise anything; the parent classifies it
        channel.report(trial.report)
        channel.failed(error)
        return 1
    channel.done()
    return 0


class CompiledTrial:
    """The phases in their order, each filling its part of the report."""

    def __init__(self, spec: TrialSpec, channel: Channel) -> None:
        self.spec = spec
        self.channel = channel
        self.report = TrialReport()

    def import_framework(self) -> None:
        """Import the framework and the page (nothing to do in a zygote's child)."""
        spec, began = self.spec, time.monotonic()
        self.runner = frameworks.load(spec.framework.name)
        self.report.timings.import_seconds = time.monotonic() - began
        self.page = workloads.load(spec.workload)
        self._step = workloads.step(self.page, spec.workload, spec.framework, spec.device.kind)
        if not self.page.COMPILED:
            text = f"{spec.workload.name} drives the framework from the host: it is no one step that could be compiled"
            raise TrialFault("not_applicable", "step not compiled", text)
        self.report.versions = {
            **self.runner.versions(),
            "numpy": importlib.metadata.version("numpy"),
            "python": platform.python_version(),
        }

    def describe(self) -> None:
        """The shapes of the inputs, no number of them made, and the work of a step by the page's own count."""
        self._begin(Phase.PLACE)
        workload, report = self.spec.workload, self.report
        require_dtype(workload.dtype, workload.name, self.page.SUPPORTED_DTYPES)
        work, counts = contract.counts_of(self.page, workload), report.counts
        counts.parameters, counts.own_flops, counts.own_bytes = work.parameters, work.flops, work.bytes
        counts.examples_per_step, counts.own_matrix_flops = work.examples, work.matrix_flops
        report.warnings += self.page.notes(workload)
        report.knobs = {"precision": workload.precision, "donate": workload.donate}
        problem = contract.problem_of(self.page, workload, self.spec.seed)
        self._state, self._batch = _shapes(problem.state), _shapes(problem.batch)
        if problem.more_batches:
            report.warnings.append("batches of several shapes: the plan is that of the first batch")

    def compile(self, compiler: CompilerProcess) -> None:
        """Lower in this process, compile in the other, and judge the plan by the chip's data sheet."""
        self._begin(Phase.COMPILE)
        spec, timings, counts = self.spec, self.report.timings, self.report.counts
        lowering = self.runner.lower(spec, self._step, self._state, self._batch)
        timings.trace_seconds, timings.lower_seconds = lowering.trace_seconds, lowering.lower_seconds
        counts.traces = lowering.traces
        if spec.framework.compile == "graph":
            self.report.warnings.append("on a TPU every tf.function goes through XLA: this is the plan of framework=tf")
        donated = len(self._state) if spec.workload.donate else 0
        found = compiler.plan(lowering.module, lowering.form, donated)
        self.report.warnings += [found.note] if found.note else []
        if not found.cached and found.compile_seconds is not None:
            timings.compile_seconds = lowering.trace_seconds + lowering.lower_seconds + found.compile_seconds
            timings.compile_method = "ahead_of_time"
        self.channel.report(self.report)
        self.channel.plan(plan.judged(replace(found, bridge=lowering.bridge), spec.device.sheet, spec.workload))

    def _begin(self, phase: Phase) -> None:
        self.channel.report(self.report)
        self.channel.phase(phase)


def _shapes(arrays: Mapping[str, Any]) -> Shapes:
    return {name: ArrayShape(tuple(arrays[name].shape), arrays[name].dtype) for name in sorted(arrays)}
