"""Whole studies with co-located trials, as commands: with the fake framework, and once with JAX and TensorFlow."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from runners.records import Evidence, OutcomeKind, TrialRecord
from study import devices
from study.tenancy import span
from tests.study.test_real_sweep import ENVIRONMENT as REAL_ENVIRONMENT
from tests.study.test_sessions import past, start, study

SHARED = ["colocation=solo,2*fake", "study.blocks=2"]


def companies(folder: Path) -> dict[tuple[str, int], list[TrialRecord]]:
    """(co-location, block) → records, solo ones included."""
    found: dict[tuple[str, int], list[TrialRecord]] = {}
    for record in past(folder).records.values():
        found.setdefault((str(record.spec.settings["colocation"]), record.spec.block), []).append(record)
    return found


def test_a_sweep_over_company_has_a_row_for_every_tenant(tmp_path: Path) -> None:
    status, text = study(tmp_path, *SHARED, report=True)
    assert status == 0, text
    found = companies(tmp_path)
    assert {key: len(records) for key, records in found.items()} == {
        ("solo", 0): 1, ("solo", 1): 1, ("fake+fake", 0): 2, ("fake+fake", 1): 2,
    }  # fmt: skip
    for block in range(2):
        first, second = found["fake+fake", block]
        starts = [one.report.timings.phase_start_seconds for one in (first, second)]
        assert max(one["ready_device"] for one in starts) <= min(one["place"] for one in starts)
        assert first.spec.tenancy is not None
        assert second.spec.tenancy is not None
        assert first.spec.tenancy.group_id == second.spec.tenancy.group_id
    with (tmp_path / "outputs" / "one" / "tables" / "tenants.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["colocation"], row["tenant"], row["blocks_count"]) for row in rows] == [
        ("fake+fake", "1", "2"), ("fake+fake", "2", "2"),
    ]  # fmt: skip
    assert all(float(row["time_ratio"]) > 0 for row in rows)
    assert "fake+fake, tenant 2 (fake/none) takes" in " ".join(text.split())


def test_a_co_location_is_resumed_whole(tmp_path: Path) -> None:
    study(tmp_path, *SHARED)
    (journal,) = (tmp_path / "outputs" / "one" / "journal").iterdir()
    lines = journal.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not ('"block":1' in line and '"tenant":2' in line)]
    assert len(kept) == len(lines) - 1
    journal.write_text("".join(kept))
    before = {key: record.session_id for key, record in past(tmp_path).records.items()}
    status, text = study(tmp_path, *SHARED)
    assert status == 0, text
    again = [record for key, record in past(tmp_path).records.items() if record.session_id != before.get(key)]
    places = [(one.spec.tenancy, one.spec.block) for one in again]
    assert sorted((one.tenant, block) for one, block in places if one is not None) == [(1, 1), (2, 1)]
    assert len(again) == 2


def test_the_same_command_again_runs_nothing(tmp_path: Path) -> None:
    study(tmp_path, *SHARED)
    first = past(tmp_path).records
    status, _ = study(tmp_path, *SHARED)
    assert status == 0
    assert past(tmp_path).records == first


def test_a_study_without_company_goes_on_with_it(tmp_path: Path) -> None:
    """The trials that ran alone are the same trials, whatever else the study has."""
    study(tmp_path, "study.blocks=2", "study.name=alone")
    study(tmp_path, *SHARED)
    alone = {record.spec.trial_id for record in companies_of(tmp_path / "outputs" / "alone")}
    assert alone == {one.spec.trial_id for block in range(2) for one in companies(tmp_path)["solo", block]}


def companies_of(folder: Path) -> list[TrialRecord]:
    from study.journal import read_past

    return list(read_past(folder).records.values())


def test_an_interrupt_ends_all_tenants_and_keeps_no_half_of_them(tmp_path: Path) -> None:
    arguments = ["colocation=2*fake", "study.blocks=2", "protocol.windows=400", "protocol.window_seconds=0.05"]
    process = start(tmp_path, *arguments)
    deadline = time.monotonic() + 60
    logs = tmp_path / "outputs" / "one" / "logs"
    while len([one for one in logs.glob("*.err") if "zygote" not in one.name]) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    tree = psutil.Process(process.pid).children(recursive=True)
    assert len(tree) >= 2
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, out + err
    _, still = psutil.wait_procs(tree, timeout=5)
    assert still == []
    assert past(tmp_path).records == {}


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """JAX and TensorFlow alone and together, at smoke size, in one block."""
    folder = tmp_path_factory.mktemp("shared")
    arguments = [
        "-m", "framework=jax,tf", "colocation=solo,jax+tf", "workload.size=tiny", "protocol=smoke",
        "protocol.windows=6", "study.blocks=1", "study.name=one",
    ]  # fmt: skip
    command = [sys.executable, "-m", "study", *arguments]
    environment = {**REAL_ENVIRONMENT, "JAX_PLATFORMS": "cpu", "PYTHONPATH": os.environ.get("PYTHONPATH", "")}
    finished = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder


def test_two_frameworks_share_this_machine(real: Path) -> None:
    records = companies(real)["jax+tf", 0]
    assert [one.outcome.kind for one in records] == [OutcomeKind.OK] * 2
    assert {one.spec.framework.name for one in records} == {"jax", "tf"}
    starts = [one.report.timings.phase_start_seconds for one in records]
    assert max(one["ready_device"] for one in starts) <= min(one["place"] for one in starts)
    spans = [span(one.report.timings) for one in records]
    assert None not in spans
    for one in records:
        assert one.spec.evidence == Evidence.MEASURED
        # all but the edge: the later of the two begins its windows within the first few of the earlier
        assert one.report.counters["overlapped_windows"] >= 1
        assert one.report.memory["host_peak"].value is not None
    # the last to begin had company from its first window to its last
    assert max(one.report.counters["overlapped_windows"] for one in records) == 6


def test_the_match_certificate_holds_with_company(real: Path) -> None:
    with (real / "outputs" / "one" / "tables" / "certificate.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    # jax and tf, each alone and together with the other, did the same work: 2 × 2 comparisons
    assert (line["verdict"], line["comparisons_count"], line["input_hash_equal"]) == ("matched", "4", "true")
    with (real / "outputs" / "one" / "tables" / "colocation.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (row["outcomes"], row["ok_count"]) == ("1 (jax): ok; 2 (tf): ok", "2")
    assert float(row["system_throughput_ratio"]) > 0
    assert int(float(row["host_peak_total_bytes"])) > 0
    assert row["process_peak_total_bytes"] == ""


@pytest.mark.gpu
@pytest.mark.skipif(devices.absence("gpu") is not None, reason="there is no GPU here")
def test_two_frameworks_share_one_gpu(tmp_path: Path) -> None:
    """The same code on a device: with growth both fit, and the driver counts the memory of each."""
    arguments = ["device=gpu", "colocation=jax+tf", "allocation=growth", "workload.size=tiny", "protocol=smoke"]
    command = [sys.executable, "-m", "study", *arguments, "study.name=one", "study.report=false"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    records = companies(tmp_path)["jax+tf", 0]
    assert [one.outcome.kind for one in records] == [OutcomeKind.OK] * 2, finished.stdout + finished.stderr
    starts = [one.report.timings.phase_start_seconds for one in records]
    assert max(one["ready_device"] for one in starts) <= min(one["place"] for one in starts)
    assert all((one.report.memory["process_peak"].value or 0) > 0 for one in records)
