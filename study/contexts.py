"""Whether a process holds a device: a zygote that does must never be forked.

Written from nvidia-smi's documented query and from how libtpu opens its device nodes; never run beside a GPU or a TPU.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from pathlib import Path

TPU_NODES = ("/dev/accel", "/dev/vfio/")


def holds_device(pid: int, device: str) -> str | None:
    """Why this process may not be forked (a sentence), or None where it is shown to hold no such device.

    On a GPU the driver's list of compute processes is asked; where it cannot be, that is a reason too.
    """
    if device == "gpu":
        return _on_gpu(pid)
    if device == "tpu":
        nodes = sorted(node for node in _open_files(pid) if node.startswith(TPU_NODES))
        return f"process {pid} has {', '.join(nodes)} open" if nodes else None
    return None


def _on_gpu(pid: int) -> str | None:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return "nvidia-smi is not installed, so that the driver's list of contexts cannot be read"
    query = [tool, "--query-compute-apps=pid", "--format=csv,noheader"]
    answer = subprocess.run(query, capture_output=True, text=True, timeout=30, check=False)
    if answer.returncode != 0:
        return f"nvidia-smi cannot list the contexts: {answer.stderr.strip() or answer.stdout.strip()}"
    listed = {int(line) for line in answer.stdout.split() if line.isdigit()}
    return f"the driver lists a context of process {pid}" if pid in listed else None


def _open_files(pid: int) -> list[str]:
    found = []
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            found.append(str(link.readlink()))
    return found
