"""Every allocation mode on a real device: whole trials through the study, each with its mode proved."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import yaml

from runners.probes.mechanism import MECHANISMS
from runners.records import OutcomeKind, TrialRecord
from study import devices, help
from study.__main__ import conf_folder
from study.journal import read_past

LEVELS = help.levels("allocation")


def trial(folder: Path, framework: str, device: str, mode: str) -> TrialRecord:
    """The record of one small trial of the mode."""
    settings = [f"framework={framework}", f"device={device}", f"allocation={mode}", "evidence=measured"]
    small = ["workload.size=tiny", "protocol=smoke", "study.name=one", "study.report=false"]
    command = [sys.executable, "-m", "study", *settings, *small]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    records = list(read_past(folder / "outputs/one").records.values())
    assert len(records) == 1, done.stdout + done.stderr
    return records[0]


def cells(device: str) -> list[tuple[str, str]]:
    """(framework, mode) wherever a mode means something on that device."""
    files = {mode: yaml.safe_load((conf_folder() / f"allocation/{mode}.yaml").read_text()) for mode in LEVELS}
    entries = [
        (name, mode, found[device]) for mode, file in files.items() for name, found in file["frameworks"].items()
    ]
    return [(name, mode) for name, mode, entry in entries if "not_applicable" not in entry]


def proved(folder: Path, framework: str, device: str, mode: str) -> TrialRecord:
    """The record of a trial that ended ok, which it does only where its mechanism is one that the mode accepts."""
    if missing := devices.absence(device) or devices.missing_framework(framework):
        pytest.skip(missing)
    record = trial(folder, framework, device, mode)
    assert record.outcome.kind is OutcomeKind.OK, record.outcome.text
    assert record.report.allocation.effective in MECHANISMS
    return record


@pytest.mark.gpu
@pytest.mark.parametrize(("framework", "mode"), cells("gpu"))
def test_a_mode_is_effective_on_a_gpu(framework: str, mode: str, tmp_path: Path) -> None:
    memory = proved(tmp_path, framework, "gpu", mode).report.memory
    process, device = (memory[name].value for name in ("process_peak", "device_total_used"))
    assert process is not None and device is not None, memory["process_peak"].source
    assert 0 < process <= device


@pytest.mark.tpu
def test_the_default_is_read_back_on_a_tpu(tmp_path: Path) -> None:
    assert proved(tmp_path, "jax", "tpu", "default").report.allocation.effective == "libtpu"


#: Whole trials take seconds each; the probe alone runs for every mode in tests/runners/test_probes.py.
ON_THE_CPU = [
    ("tf", "growth", "bfc"), ("tf", "platform", "posix_memalign"), ("jax", "platform", "posix_memalign"),
    ("jax", "jemalloc_retain", "jemalloc_retain"), ("tf", "glibc_retain", "glibc_retain"),
]  # fmt: skip


@pytest.mark.parametrize(("framework", "mode", "mechanism"), ON_THE_CPU)
def test_a_mode_is_effective_on_a_cpu(framework: str, mode: str, mechanism: str, tmp_path: Path) -> None:
    record = trial(tmp_path, framework, "cpu", mode)
    if record.outcome.reason == "library not installed":
        pytest.skip(record.outcome.text)
    assert record.outcome.kind is OutcomeKind.OK, record.outcome.text
    assert (record.spec.allocation.mode, record.report.allocation.effective) == (mode, mechanism)
    whole = record.report.memory["device_total_used"].value
    assert whole is not None and 0 < whole < psutil.virtual_memory().total
