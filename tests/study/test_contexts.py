"""A zygote that holds a device is not forked: what the driver lists, and what a process has open."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from study.contexts import holds_device


def driver(folder: Path, program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program in place of nvidia-smi."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{program}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_the_drivers_list_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver(tmp_path, "echo 4711; echo 12", monkeypatch)
    assert holds_device(12, "gpu") == "the driver lists a context of process 12"
    assert holds_device(471, "gpu") is None


def test_a_list_that_cannot_be_read_is_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "nvidia-smi is not installed" in (holds_device(12, "gpu") or "")
    driver(tmp_path, "echo no driver; exit 9", monkeypatch)
    assert "no driver" in (holds_device(12, "gpu") or "")


def test_a_process_without_a_tpu_node_holds_no_tpu() -> None:
    assert holds_device(os.getpid(), "tpu") is None
    assert holds_device(os.getpid(), "cpu") is None
