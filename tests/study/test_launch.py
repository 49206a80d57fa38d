"""The environment that a trial gets."""

from __future__ import annotations

import pytest

from runners.specs import DeviceSpec, WorkloadSpec
from study import launch
from tests.study import samples


@pytest.mark.parametrize(
    ("device", "workload", "evidence", "platforms"),
    [
        ("cpu", "mlp", "measured", "cpu"),
        ("gpu", "mlp", "measured", "cuda"),
        ("tpu", "mlp", "measured", "tpu"),
        ("cpu", "placement", "measured", "cpu"),
        ("gpu", "placement", "measured", "cuda,cpu"),
        ("tpu", "placement", "measured", "tpu,cpu"),
        ("gpu", "placement", "compiled", "cpu"),
    ],
)
def test_jax_gets_the_cpu_too_only_where_arrays_are_asked_for_there(
    device: str, workload: str, evidence: str, platforms: str
) -> None:
    spec = samples.spec(
        device=DeviceSpec(device), workload=WorkloadSpec(workload, "tiny", 8, "float32"), evidence=evidence
    )
    environment = launch.environment(spec)
    assert environment["JAX_PLATFORMS"] == platforms
    on_gpu = device == "gpu" and evidence == "measured"
    assert environment["CUDA_VISIBLE_DEVICES"] == ("0" if on_gpu else "-1")
