"""What is read from the log: TensorFlow's own on the CPU as recorded, and lines that public reports quote from GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from runners.probes import allocator_log

RECORDED = Path(__file__).parents[1] / "recorded/allocator_logs/tf_bfc_cpu_limit.txt"


def test_a_recorded_log_gives_limit_regions_and_the_largest_free_block() -> None:
    text = RECORDED.read_text()
    assert allocator_log.region_bytes(text) == [2 * 2**20, 8 * 2**20, 64 * 2**20]
    assert allocator_log.log_readings(text) == {
        "logged_limit_bytes": 256 * 2**20,
        "logged_pool_bytes": 74 * 2**20,
        "logged_regions": 3,
    }
    assert allocator_log.largest_free_bytes(text) == 8 * 2**20


def test_a_log_without_a_map_tells_no_free_block() -> None:
    assert allocator_log.largest_free_bytes(RECORDED.read_text().partition("BFCAllocator dump")[0]) is None
    assert allocator_log.log_readings("") == {}


@pytest.mark.parametrize(
    ("line", "readings"),
    [
        (
            "gpu_process_state.cc:208] Using CUDA malloc Async allocator for GPU: 0\n"
            "gpu_device.cc:2019] Created device /job:localhost/replica:0/task:0/device:GPU:0 with 4096 MB memory:  -> "
            "device: 0, name: NVIDIA GeForce RTX 4060 Laptop GPU, pci bus id: 0000:01:00.0, compute capability: 8.9",
            {"logged_allocator": "cuda_async", "logged_limit_bytes": 4096 * 2**20},
        ),
        (
            "se_gpu_pjrt_client.cc:951] Using BFC allocator.\n"
            "gpu_helpers.cc:136] XLA backend allocating 3825205248 bytes on device 0 for BFCAllocator.\n"
            "gpu_helpers.cc:177] XLA backend will use up to 1275068416 bytes on device 0 for CollectiveBFCAllocator.",
            {"logged_allocator": "bfc", "logged_reserves": True, "logged_limit_bytes": 3825205248},
        ),
        (
            "XLA backend will use up to 15.11GiB bytes on device 0 for BFCAllocator.",
            {"logged_reserves": False},
        ),
    ],
)
def test_lines_from_public_reports(line: str, readings: dict[str, object]) -> None:
    assert allocator_log.log_readings(line) == readings


def test_a_pipe_is_no_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator_log, "OWN_LOG", Path("/dev/null"))
    assert allocator_log.own_log() == ""
