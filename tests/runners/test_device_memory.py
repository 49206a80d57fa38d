"""What is read of a device's memory: NVML by a stand-in of its interface, frameworks by their documented answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from runners.probes import nvml
from tests.runners.harness import ROOT, environment

GIB = 2**30


class NVMLError(Exception):
    """As pynvml's."""


def stand_in(used_by: dict[int, int | None], fails: str | None = None) -> SimpleNamespace:
    """pynvml with one GPU of 80 GiB, 12 GiB in use, found by index 3 or its UUID; `used_by`: bytes by process id."""

    def start() -> None:
        if fails is not None:
            raise NVMLError(fails)

    processes = [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in used_by.items()]
    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=start,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: {3: "gpu"}[index],
        nvmlDeviceGetHandleByUUID=lambda uuid: {"GPU-8932f937": "gpu"}[uuid],
        nvmlDeviceGetMemoryInfo=lambda handle: {"gpu": SimpleNamespace(total=80 * GIB, used=12 * GIB)}[handle],
        nvmlDeviceGetComputeRunningProcesses_v3=lambda handle: {"gpu": processes}[handle],
    )


@pytest.mark.parametrize("visible", ["3", "3,1", "GPU-8932f937"])
def test_the_trials_own_gpu_is_read(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in({os.getpid(): 5 * GIB, 1: 7 * GIB}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = nvml.memory("gpu")
    assert {name: quantity.value for name, quantity in found.items()} == {
        "process_peak": 5 * GIB,
        "device_total_used": 12 * GIB,
        "device_memory": 80 * GIB,
    }
    assert found["device_total_used"].source.startswith("nvmlDeviceGetMemoryInfo.used")


@pytest.mark.parametrize("used_by", [{1: 7 * GIB}, {os.getpid(): None}])
def test_a_process_that_the_driver_does_not_count_is_null_and_no_zero(used_by, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in(used_by))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    found = nvml.memory("gpu")
    assert (found["process_peak"].value, found["device_total_used"].value) == (None, 12 * GIB)
    assert "lists no such process" in found["process_peak"].source


def test_a_driver_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", stand_in({}, fails="Driver Not Loaded"))
    assert nvml.readings() == {"driver": "not measured: NVML says Driver Not Loaded"}
    assert nvml.memory("gpu")["process_peak"].source == "not measured: NVML says Driver Not Loaded"
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert nvml.readings() == {"driver": "not measured: nvidia-ml-py is not installed"}


def run(framework: str, code: str) -> object:
    """The JSON that `code` prints last, in a process of its own."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(framework), cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_jax_tells_free_blocks_of_a_pool_only() -> None:
    """As documented: BFC has pool_bytes; the CUDA pool has none and answers 0 for its largest free block."""
    code = """
import json
from runners.frameworks import jax_runner
pool = {"pool_bytes": 100, "peak_pool_bytes": 120, "bytes_in_use": 30, "peak_bytes_in_use": 40,
        "largest_free_block_bytes": 60}
answers = []
for statistics in (pool, {"bytes_in_use": 30, "peak_bytes_in_use": 40, "largest_free_block_bytes": 0}, None):
    runner = jax_runner.Runner()
    runner._kind = "gpu"
    runner._device = type("Device", (), {"memory_stats": lambda self, found=statistics: found})()
    answers.append([quantity.value for quantity in runner.device_memory().values()])
print(json.dumps(answers))
"""
    assert run("jax", code) == [[40, 120, 60, 10], [40, None, None, None], [None, None, None, None]]


def test_jax_tells_the_whole_memory_and_the_free_block_of_a_tpu() -> None:
    """As documented: libtpu's statistics hold no pool_bytes, and bytes_limit is the device's memory."""
    code = """
import json
from runners.frameworks import jax_runner
runner = jax_runner.Runner()
runner._kind = "tpu"
found = {"bytes_in_use": 1, "peak_bytes_in_use": 2, "largest_free_block_bytes": 90, "bytes_limit": 100}
runner._device = type("Device", (), {"memory_stats": lambda self: found})()
print(json.dumps({name: quantity.value for name, quantity in runner.device_memory().items()}))
"""
    assert run("jax", code) == {
        "device_live_peak": 2,
        "device_pool_peak": None,
        "device_largest_free_block": 90,
        "device_fragmented_free": None,
        "device_memory": 100,
    }


def test_tensorflow_takes_a_fraction_above_one_before_its_context_exists() -> None:
    code = """
import json
from runners.frameworks import tf_runner
from tensorflow.python.eager import context
import tensorflow as tf
tf_runner._apply_calls(tf.config.list_physical_devices("CPU")[0], {"gpu_memory_fraction": "1.500000"})
asked = context.context().config.gpu_options.per_process_gpu_memory_fraction
print(json.dumps([asked, float(tf.add(1.0, 2.0))]))
"""
    assert run("tf", code) == [1.5, 3.0]


@pytest.mark.parametrize("call", ["memory_growth", "memory_limit_mib"])
def test_tensorflows_calls_are_refused_on_a_cpu_and_after_the_context(call: str) -> None:
    """Case 7."""
    code = f"""
import json
from runners.frameworks import tf_runner
import tensorflow as tf
device, answers = tf.config.list_physical_devices("CPU")[0], []
for _ in range(2):
    try:
        tf_runner._apply_calls(device, {{"{call}": "64"}})
        answers.append("taken")
    except Exception as error:
        answers.append([type(error).__name__, getattr(error, "kind", None)])
    tf.zeros(())
print(json.dumps(answers))
"""
    assert run("tf", code) == [["TrialFault", "not_applicable"], ["TrialFault", "not_applicable"]]
