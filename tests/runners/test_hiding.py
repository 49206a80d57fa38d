"""TensorFlow's GPUs are hidden at the end of its import, whoever imports it and however often that is asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.runners.harness import ROOT, environment

FAKE = """
class config:
    calls = []
    @classmethod
    def set_visible_devices(cls, devices, kind):
        if {initialised}:
            raise RuntimeError("Visible devices cannot be modified after being initialized")
        cls.calls.append((devices, kind))
"""


def run(folder: Path, code: str, initialised: bool = False) -> str:
    """What `code` prints in a process of its own that finds this stand-in for TensorFlow."""
    (folder / "tensorflow.py").write_text(FAKE.format(initialised=initialised))
    variables = {**environment(""), "PYTHONPATH": f"{folder}:{ROOT}"}
    command = [sys.executable, "-c", f"from runners.frameworks.hiding import hide_gpus_from_tensorflow as hide\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, env=variables, check=True, timeout=60).stdout


@pytest.mark.parametrize(
    "code",
    ["hide(); hide(); import tensorflow", "import tensorflow; hide()"],
    ids=["imported later", "imported before"],
)
def test_the_gpus_are_hidden_once_and_nothing_else(tmp_path: Path, code: str) -> None:
    printed = run(tmp_path, f"{code}\nimport sys\nprint(tensorflow.config.calls, len(sys.meta_path))")
    plain = run(tmp_path, "import sys\nprint(len(sys.meta_path))")
    assert printed == f"[([], 'GPU')] {plain}"


def test_a_tensorflow_that_holds_its_devices_is_refused(tmp_path: Path) -> None:
    code = "import tensorflow\ntry:\n    hide()\nexcept Exception as error:\n    print(error.kind, error.reason, error)"
    printed = run(tmp_path, code, initialised=True)
    assert printed.startswith("config TensorFlow holds the GPU")
    assert "Visible devices cannot be modified" in printed


def test_the_real_tensorflow_is_imported_whole_and_hides_its_gpus() -> None:
    code = (
        "from runners.frameworks.hiding import hide_gpus_from_tensorflow as hide; hide(); import tensorflow as tf; "
        "from tensorflow.python.eager import context; "
        "print(context.context().get_visible_devices(), float(tf.add(1.0, 2.0)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment("tf"), cwd=ROOT, check=True
    )
    assert "CPU:0" in done.stdout and "GPU" not in done.stdout and done.stdout.endswith("3.0\n")


def test_here_nothing_is_hidden_yet() -> None:
    """Before TensorFlow is imported, asking only leaves the hook, and asking again no second one."""
    code = (
        "import sys; from runners.frameworks.hiding import hide_gpus_from_tensorflow as hide;"
        "before = len(sys.meta_path); hide(); hide(); print(len(sys.meta_path) - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "1\n"
