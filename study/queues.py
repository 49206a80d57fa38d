"""What a scheduler still holds of a sweep: asked only once its launcher has stopped telling."""

from __future__ import annotations

import shutil
import subprocess

ASK_SECONDS = 30


def jobs(name: str) -> int | None:
    """How many jobs of this name Slurm holds, waiting or running (squeue(1)); None where there is no Slurm to ask."""
    tool = shutil.which("squeue")
    if tool is None:
        return None
    command = [tool, "--noheader", "--array", f"--name={name}", "--format=%i"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return None
    return len(answer.stdout.split()) if answer.returncode == 0 else None
