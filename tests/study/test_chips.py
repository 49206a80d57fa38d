"""The chips of conf/chip: every data sheet is whole, its target exists, and a name is resolved as it is documented."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from runners.compiled import targets
from runners.specs import ChipSpec
from study import chips
from study.schema import Chip, EvidenceRequest
from tests.study.test_compiled import needs_libtpu

EVERY = [*chips.levels("tpu"), *chips.levels("gpu")]


def sheet(name: str, device: str = "tpu", evidence: EvidenceRequest = EvidenceRequest.auto) -> ChipSpec | None:
    return chips.sheet(Chip() if name == "auto" else chips.level(name), device, evidence)


@pytest.mark.parametrize("name", EVERY)
def test_a_data_sheet_is_whole(name: str) -> None:
    level = chips.level(name)
    assert level.name == name and level.device is not None and level.found_as
    assert 0 < level.usable_bytes <= level.memory_bytes / level.devices_per_chip
    # no chip is faster than 20 TB/s or 20 PFLOP/s, nor slower than 100 GB/s or 1 TFLOP/s
    assert 1e11 < level.bandwidth_bytes_per_second < 2e13
    assert all(1e12 < rate < 2e16 for rate in level.peak_flops.values()) and "float32" in level.peak_flops
    found = sheet(name, level.device.value)
    assert found is not None and (
        found.topology if found.platform == "tpu" else "core_count" in targets.describe(found)
    )


def test_the_chips_that_were_asked_for_are_there() -> None:
    assert {"v4", "v5e", "v5p", "v6e", "tpu7x"} == set(chips.levels("tpu"))
    assert {"a100", "h100", "h200", "b200", "l4"} <= set(chips.levels("gpu"))


def test_auto_is_the_chip_found_and_else_a_common_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("study.devices.model_names", lambda _: [])
    monkeypatch.setattr("study.devices.absence", lambda _: "absent")
    assert [sheet("auto", device).name for device in ("tpu", "gpu")] == ["v5e", "h100"]  # type: ignore[union-attr]
    assert sheet("auto", "cpu") is None
    monkeypatch.setattr("study.devices.absence", lambda _: None)
    # a present chip that no file describes is measured without a sheet, and compiled for as the common one
    assert sheet("auto", "gpu") is None
    assert sheet("auto", "gpu", EvidenceRequest.compiled).name == "h100"  # type: ignore[union-attr]
    monkeypatch.setattr("study.devices.model_names", lambda _: ["NVIDIA L4"])
    assert sheet("auto", "gpu").name == "l4"  # type: ignore[union-attr]


@needs_libtpu
def test_libtpu_lists_as_many_devices_a_chip_as_the_sheet_says() -> None:
    program = """
import json, sys
from jax.experimental import topologies
names = json.loads(sys.argv[1])
print(json.dumps([len(topologies.get_topology_desc(platform="tpu", topology_name=name).devices) for name in names]))
"""
    levels = [chips.level(name) for name in chips.levels("tpu")]
    environment = {**targets.LIBTPU, "JAX_PLATFORMS": "cpu", "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-c", program, json.dumps([one.topology for one in levels])]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    # every topology has four chips
    assert json.loads(done.stdout) == [4 * one.devices_per_chip for one in levels]
