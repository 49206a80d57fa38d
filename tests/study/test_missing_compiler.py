"""A compiler that is not installed: the condition is unavailable, with the pip line that brings it."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runners import lines
from study import chips

#: Makes installed distributions look absent to every Python that starts with this on its path.
HIDING = """
import importlib.metadata as metadata
found = metadata.version
def version(name):
    if name in ("libtpu", "jax-cuda12-pjrt"):
        raise metadata.PackageNotFoundError(name)
    return found(name)
metadata.version = version
"""
CASES = pytest.mark.parametrize(
    ("device", "chip", "distribution", "line"),
    [
        ("tpu", "v5e", "libtpu", "pip install -c constraints.txt -e '.[cpu]'"),
        ("gpu", "h100", "jax-cuda12-pjrt", "pip install -c constraints.txt -e '.[gpu-compile]'"),
    ],
)


@pytest.fixture
def without_compilers(tmp_path: Path) -> dict[str, str]:
    """An environment in which no compiler for an accelerator is installed."""
    folder = tmp_path / "hiding"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDING)
    paths = [str(folder), str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}


@CASES
def test_the_study_says_how_to_bring_it(
    tmp_path: Path, without_compilers: dict[str, str], device: str, chip: str, distribution: str, line: str
) -> None:
    command = [sys.executable, "-P", "-m", "study", "-m", "framework=jax,tf", f"device={device}", f"chip={chip}"]
    done = subprocess.run(
        [*command, "workload.size=tiny", "study.name=missing"],
        cwd=tmp_path,
        env=without_compilers,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    journals = (tmp_path / "outputs" / "missing" / "journal").glob("*.jsonl")
    bodies = [lines.decode_line(text) for path in journals for text in path.read_text().splitlines()]
    outcomes = [lines.trial_from_dict(body).outcome for body in bodies if body["kind"] == "trial"]
    assert [(one.kind, one.phase, one.reason) for one in outcomes] == [
        ("unavailable", "preflight", "compiler not installed")
    ] * 2, done.stderr
    assert all(f"({distribution}); bring it with: {line}" in one.text for one in outcomes)
    assert done.returncode == 1 and done.stdout.count(line) == 1


ASKING = """
import json, sys
from runners.compiled.process import CompilerProcess
from runners.faults import TrialFault
from runners.specs import ChipSpec
with CompilerProcess(ChipSpec(**json.loads(sys.argv[1]))) as compiler:
    try:
        compiler.plan(b"", "stablehlo", 0)
    except TrialFault as fault:
        print(fault.kind, fault.reason, str(fault), sep="|", end="")
"""


@CASES
def test_the_compilers_process_says_so_too(
    without_compilers: dict[str, str], device: str, chip: str, distribution: str, line: str
) -> None:
    """Where the study did not look: framework and compiler may be on different interpreters."""
    sheet = chips.sheet(chips.level(chip), device, chips.EvidenceRequest.compiled)
    assert sheet is not None
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASKING, json.dumps(dataclasses.asdict(sheet))],
        env=without_compilers,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    kind, reason, text = done.stdout.split("|")
    assert (kind, reason) == ("unavailable", "compiler not installed"), done.stderr
    assert f"({distribution}); bring it with: {line}" in text
