"""Measured or compiled: what a condition's request comes to on this machine."""

from __future__ import annotations

from runners.records import Evidence
from runners.specs import DeviceSpec
from study import chips, devices
from study.schema import EvidenceRequest


def resolve(request: EvidenceRequest, device: DeviceSpec) -> Evidence:
    """As asked; for `auto`, measured where the device is present and its chip is the one that is meant."""
    if request is not EvidenceRequest.auto:
        return Evidence(request.value)
    return Evidence.MEASURED if absence(device) is None else Evidence.COMPILED


def absence(device: DeviceSpec) -> str | None:
    """Why the device, or the chip meant, cannot be measured here (a sentence); None where it can."""
    absent = devices.absence(device.kind)
    if absent is not None or device.sheet is None or devices.PLACE.elsewhere:
        return absent
    found = chips.found(device.kind)
    if found == device.sheet.name:
        return None
    return f"chip={device.sheet.name} is not in this machine, whose chip is {found or 'none that conf/chip describes'}"
