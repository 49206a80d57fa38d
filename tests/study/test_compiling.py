"""Compilations side by side: how many, and that two really work at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.records import Evidence, OutcomeKind, Phase, TrialRecord
from runners.specs import DeviceSpec, FrameworkSpec, TrialSpec, WorkloadSpec
from study import compiling, processes, session
from study.starters import Starters
from study.tenancy import TenancySupervisor
from tests.study.samples import spec
from tests.study.test_supervise import Silent


@pytest.mark.parametrize(
    ("cores", "gigabytes", "many"),
    [(1, 64, 1), (2, 64, 1), (4, 64, 2), (64, 64, 25), (16, 6, 2), (16, 1, 1)],
)
def test_so_many_as_cores_and_memory_allow(cores: int, gigabytes: int, many: int) -> None:
    """Two cores and 2.5 GB each, and one in any case."""
    assert compiling.limit(cores, gigabytes * 10**9) == many


def compiled(number: int) -> TrialSpec:
    return spec(
        number,
        framework=FrameworkSpec("jax", "jit"),
        device=DeviceSpec("cpu"),
        workload=WorkloadSpec("mlp", "tiny", 8 + number, "float32", {"width": 16, "layers": 2, "classes": 4}),
        evidence=Evidence.COMPILED.value,
        settings={"framework": "jax", "compile": "jit", "protocol.start": "spawn"},
    )


def test_a_block_compiles_first_and_in_parts_of_as_many_as_may(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = spec(9)
    groups = session.compiled_together([[compiled(1), measured], [compiled(2)], [compiled(3)]])
    assert [[one.block for one in group] for group in groups] == [[1, 2, 3], [9]]
    monkeypatch.setattr(compiling, "at_once", lambda: 2)
    assert [[one.block for one in part] for part in session._parts(groups[0])] == [[1, 2], [3]]


def test_two_compilers_work_at_the_same_time(tmp_path: Path) -> None:
    processes.become_subreaper()
    records: list[TrialRecord] = []
    with Starters(tmp_path) as starters:
        TenancySupervisor(starters, tmp_path, Silent()).run([compiled(1), compiled(2)], records.append)
    assert [(one.outcome.kind, one.plan is not None) for one in records] == [(OutcomeKind.OK, True)] * 2
    spans = [
        (one.report.timings.phase_start_seconds[Phase.LAUNCH], one.report.timings.phase_start_seconds["done"])
        for one in records
    ]
    assert max(start for start, _ in spans) < min(end for _, end in spans)
