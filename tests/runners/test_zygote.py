"""The zygote's promise, with the real frameworks: importing makes no backend, and with one there is no fork."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import sys
from runners import frameworks
from runners.zygote import BackendExists, refuse_backend
runner = frameworks.load(sys.argv[1])
refuse_backend(runner)
if sys.argv[1] == "jax":
    import jax
    jax.devices()
else:
    import tensorflow as tf
    tf.constant(0.0)
try:
    refuse_backend(runner)
except BackendExists as error:
    print(error)
"""


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_a_process_with_a_backend_forks_no_more(framework: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, framework],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"holds a backend of {framework}: a fork of it would hang" in finished.stdout
