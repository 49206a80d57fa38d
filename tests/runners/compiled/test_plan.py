"""Peak, margin and roofline, against arithmetic by hand; the targets and the cache's key."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runners.compiled import cache, plan, planning, targets
from runners.records import Plan
from runners.specs import ChipSpec, WorkloadSpec

CHIP = ChipSpec(
    "toy", "cuda", devices_per_chip=2, memory_bytes=2000, usable_bytes=900, bandwidth_bytes_per_second=100.0,
    peak_flops={"float32": 1000.0},
    gpu_target={"compute_capability": "9.0", "accelerated_features": True, "core_count": 7},
)  # fmt: skip
WORK = WorkloadSpec("mlp", "tiny", 8, "float32")
MEMORY = {
    "argument_size_in_bytes": 500,
    "output_size_in_bytes": 300,
    "alias_size_in_bytes": 200,
    "temp_size_in_bytes": 250,
    "generated_code_size_in_bytes": 10,
    "peak_memory_in_bytes": 999,
}


def test_the_peak_is_one_sum_for_every_compiler_and_the_raw_fields_stay() -> None:
    found = plan.from_compiler(MEMORY, {"flops": 10.0, "bytes accessed": 5.0}, {"flops": 20.0})
    assert found.peak_bytes == 500 + 300 - 200 + 250 + 10
    assert found.raw == MEMORY
    assert (found.flops, found.bytes_accessed, found.flops_source) == (10.0, 5.0, "compiled module")
    assert found.lowered_flops == 20.0


def test_what_a_compiler_does_not_say_is_none() -> None:
    without_code = {key: value for key, value in MEMORY.items() if "code" not in key}
    found = plan.from_compiler(without_code, {}, {"flops": 20.0, "bytes accessed": 7.0})
    assert found.code_bytes is None and found.peak_bytes is None
    assert (found.flops, found.bytes_accessed, found.flops_source) == (20.0, 7.0, "lowered module")
    assert plan.judged(found, CHIP, WORK).fits is None


@pytest.mark.parametrize(
    ("flops", "accessed", "seconds", "bound"),
    # a device has half a chip: 500 FLOP/s and 50 bytes/s
    [(1000.0, 50.0, 2.0, "arithmetic"), (100.0, 50.0, 1.0, "bandwidth")],
)
def test_the_roofline_is_that_of_one_device(flops: float, accessed: float, seconds: float, bound: str) -> None:
    found = plan.judged(Plan(flops=flops, bytes_accessed=accessed, peak_bytes=860), CHIP, WORK)
    assert (found.predicted_step_seconds, found.predicted_bound) == (pytest.approx(seconds), bound)
    assert (found.fits, found.margin_bytes, found.usable_bytes) == (True, 40, 900)


def test_a_loop_counts_as_often_as_it_runs() -> None:
    found = plan.judged(Plan(flops=100.0, matrix_flops=5000, bytes_accessed=1.0), CHIP, WORK)
    assert found.predicted_step_seconds == pytest.approx(10.0)


def test_no_rate_for_the_number_format_means_no_prediction() -> None:
    found = plan.judged(Plan(flops=1.0, bytes_accessed=1.0), CHIP, replace(WORK, dtype="bfloat16"))
    assert found.predicted_step_seconds is None and found.predicted_bound is None
    assert plan.number_format(replace(WORK, precision="tf32")) == "tf32"
    assert plan.number_format(replace(WORK, dtype="bfloat16", precision="tf32")) == "bfloat16"


def test_a_tpu_plan_that_was_made_fits_and_a_gpu_plan_may_not() -> None:
    large = Plan(peak_bytes=1000)
    assert plan.judged(large, CHIP, WORK).fits is False
    assert plan.judged(large, replace(CHIP, platform="tpu"), WORK).fits is True
    assert plan.judged(large, None, WORK) == large


def test_a_gpu_target_is_built_from_the_sheet() -> None:
    text = targets.gpu_target(CHIP)
    assert "core_count: 7 " in text and "device_memory_size: 900 " in text and "memory_bandwidth: 50 " in text
    assert "cuda_compute_capability { major: 9 minor: 0 feature_extension: ACCELERATED_FEATURES }" in text
    assert targets.name(CHIP) == "toy (sm_9.0)"


def test_only_what_is_run_decides_the_hash() -> None:
    text = "HloModule a_inference_step_80__.8, entry={f32[8]}\n\nadd_12__.1 {\n  ROOT x = f32[] add(a, b)\n}\n"
    again = text.replace("_80__", "_4711__").replace("_12__", "_3__")
    assert cache.module_hash(text) == cache.module_hash(again)
    assert cache.module_hash(text) != cache.module_hash(text.replace("add(", "multiply("))
    assert len({cache.key("m", "c", "t"), cache.key("m", "c2", "t"), cache.key("m", "c", "t2")}) == 3


def test_a_damaged_plan_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.read("name") is None
    cache.write("name", {"plan": {"temp_bytes": 3}})
    assert cache.read("name") == {"plan": {"temp_bytes": 3}}
    path = cache.folder() / "name.json"
    path.write_text(path.read_text().replace("3", "4"))
    assert cache.read("name") is None


def test_a_cache_that_cannot_be_used_costs_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file stands where its folder should be."""
    blocked = tmp_path / "accelerator-study"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.read("name") is None
    said = planning._keep("name", {"plan": {}})
    assert said.startswith(f"the plan could not be kept for another run: {blocked}") and "Not a directory" in said
