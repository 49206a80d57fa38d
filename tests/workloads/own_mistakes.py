"""Prints what is said of each workload file, name → [kind, reason, text]: `own_mistakes.py jax|tf FILE …`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from runners import contract, frameworks, workloads
from runners.faults import TrialFault
from runners.frameworks.base import FrameworkRunner
from runners.specs import TrialSpec, WorkloadSpec
from runners.work import require_real_work
from tests.runners.harness import make_spec


def said(runner: FrameworkRunner, spec: TrialSpec) -> list[str]:
    """The fault of a trial up to the compiled step, or its warnings."""
    asked = spec.workload
    try:
        page = workloads.load(asked)
        step = workloads.step(page, asked, spec.framework, "cpu")
        problem = contract.problem_of(page, asked, spec.seed).made()
        state = {name: runner.place(array, in_place=True) for name, array in problem.state.items()}
        batch = {name: runner.place(array, in_place=False) for name, array in problem.batch.items()}
        program = runner.compile(step, state, batch, donate=True)
        assert program.work is not None
        return ["ok", "", "; ".join(require_real_work(program.work, contract.counts_of(page, asked), str(asked.path)))]
    except TrialFault as fault:
        return [fault.kind, fault.reason, str(fault)]


def main(framework: str, *files: str) -> None:
    """Every file in turn, in one process."""
    runner = frameworks.load(framework)
    runner.open_device(make_spec(framework))
    found = {}
    for file in files:
        asked = replace(WorkloadSpec("file", "tiny", 4, "float32"), path=file)
        found[Path(file).stem] = said(runner, make_spec(framework, workload=asked))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
