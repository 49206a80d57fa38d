"""Which chip a condition means: the one named, the one found in this machine, or the one assumed without any."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from runners.specs import ChipSpec
from study import devices
from study.schema import Chip, EvidenceRequest

#: What is compiled for where no chip was named and none is there: common ones that a reader can rent.
ASSUMED = {"tpu": "v5e", "gpu": "h100"}
PLATFORMS = {"tpu": "tpu", "gpu": "cuda"}


def sheet(chip: Chip, device: str, evidence: EvidenceRequest) -> ChipSpec | None:
    """The data sheet of the chip meant; a named one is given as named, even where it is no chip of this device.

    None for a CPU, and for a present chip that no file under conf/chip describes.
    """
    if chip.name == "auto":
        if device == "cpu":
            return None
        name = found(device)
        if name is None and evidence is not EvidenceRequest.compiled and devices.absence(device) is None:
            return None
        chip = level(name or ASSUMED[device])
    return ChipSpec(
        name=chip.name,
        platform=PLATFORMS[chip.device.value] if chip.device is not None else "",
        topology=chip.topology,
        devices_per_chip=chip.devices_per_chip,
        memory_bytes=chip.memory_bytes,
        usable_bytes=chip.usable_bytes,
        bandwidth_bytes_per_second=chip.bandwidth_bytes_per_second,
        peak_flops=dict(chip.peak_flops),
        gpu_target=dict(chip.gpu_target),
    )


def found(device: str) -> str | None:
    """The name of the chip in this machine; None where there is none, or none that conf/chip describes."""
    names = devices.model_names(device)
    return next((one for one in levels(device) if set(level(one).found_as) & set(names)), None)


def levels(device: str) -> list[str]:
    """The chips of a device that conf/chip describes."""
    every = sorted(path.stem for path in _folder().glob("*.yaml"))
    return [one for one in every if (kind := level(one).device) is not None and kind.value == device]


@cache
def level(name: str) -> Chip:
    """One file of conf/chip, checked."""
    merged: Any = OmegaConf.merge(OmegaConf.structured(Chip), OmegaConf.load(_folder() / f"{name}.yaml"))
    return OmegaConf.to_object(merged)  # type: ignore[return-value]


def _folder() -> Path:
    from study.__main__ import conf_folder

    return conf_folder() / "chip"
