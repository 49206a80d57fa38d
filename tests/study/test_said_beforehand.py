"""What a person is told in the terminal: before a study starts, and of a trial that could not be what was asked."""

from __future__ import annotations

import io
import subprocess
import sys

import pytest
from rich.console import Console

from runners.records import Outcome, OutcomeKind, Phase
from study.progress import Progress
from tests.runners.harness import ROOT, environment
from tests.study import samples

SIZE_OF_AN_ACCELERATOR = "workload.size=paper has the dimensions of an accelerator"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["workload.size=paper"], True),
        (["workload.size=default"], False),
        (["workload.size=paper", "device=tpu", "chip=v5e", "evidence=compiled"], False),
    ],
)
def test_an_accelerators_size_on_a_cpu_is_told_before_anything_starts(settings: list[str], told: bool) -> None:
    command = [sys.executable, "-m", "study", "workload=mlp", "study.dry_run=true", *settings]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment("jax"), check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (SIZE_OF_AN_ACCELERATOR in " ".join(done.stdout.split())) is told


@pytest.mark.parametrize(
    ("kind", "phase", "told"),
    [
        (OutcomeKind.CONFIG, Phase.PLACE, True),
        (OutcomeKind.INVALID, Phase.COMPILE, True),
        (OutcomeKind.NOT_APPLICABLE, Phase.IMPORT, True),
        (OutcomeKind.UNAVAILABLE, Phase.PREFLIGHT, True),
        (OutcomeKind.NOT_APPLICABLE, Phase.PREFLIGHT, False),
        (OutcomeKind.CRASH, Phase.COMPILE, False),
    ],
)
def test_what_a_person_can_mend_is_said_once(kind: OutcomeKind, phase: Phase, told: bool) -> None:
    written = io.StringIO()
    progress = Progress(Console(file=written, width=200), 2, [])
    for block in (0, 1):
        record = samples.record(block)
        record.outcome = Outcome(kind, phase, "short", "the whole sentence")
        progress.finished(record)
    assert written.getvalue().count(f"{kind} (short)") == 2
    assert written.getvalue().count("the whole sentence") == told
