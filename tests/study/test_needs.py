"""What is asked of a machine beforehand: bytes counted by hand from the shapes in the pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from runners.specs import DeviceSpec, WorkloadSpec
from study import launchers, needs
from study.config import Condition
from study.design import plan
from study.needs import Needs
from tests.study.samples import PROTOCOL, condition

ALONE = replace(PROTOCOL, interleave=False)
#: x and y of 8 rows and 16 columns, 4 bytes each.
SMALL_BYTES = 2 * 8 * 16 * 4


def of(*conditions: Condition) -> Needs:
    return needs.of(plan(conditions, swept=["framework"], primary="framework", seed=1, blocks=2))


@pytest.mark.parametrize(("protocol", "expected"), [(ALONE, SMALL_BYTES), (PROTOCOL, 2 * SMALL_BYTES)])
def test_trials_that_are_alive_together_need_the_memory_of_all(protocol: object, expected: int) -> None:
    found = of(*(condition(framework, protocol=protocol) for framework in ("fake", "other")))
    assert (found.kinds, found.cores, found.memory_bytes) == ({"cpu"}, None, expected)


def test_the_largest_trial_decides_and_cores_are_the_most_that_one_is_bound_to() -> None:
    large = WorkloadSpec("elementwise", "tiny", 800, "float32", {"width": 16})
    one = condition(protocol=ALONE, extra={"device.cpus": 2})
    other = condition(protocol=ALONE, workload=large, extra={"device.cpus": 4, "workload.batch_size": 800})
    found = of(one, other)
    assert (found.cores, found.memory_bytes) == (4, 100 * SMALL_BYTES)


def test_memory_is_not_known_beside_an_accelerator_of_a_keras_model_or_of_an_own_page() -> None:
    assert of(condition(device=DeviceSpec("gpu"))).memory_bytes is None
    keras = WorkloadSpec("keras", "tiny", 8, "float32", {}, model="ResNet50")
    assert of(condition(workload=keras)).memory_bytes is None
    own = WorkloadSpec("file", "tiny", 8, "float32", {}, path="own.py")
    assert of(condition(workload=own)).memory_bytes is None


def test_ray_is_asked_for_the_least_memory_that_a_trial_needs_unless_the_user_said_another() -> None:
    for given, expected in (({}, SMALL_BYTES), ({"memory": 5}, 5)):
        launcher = {"_target_": "x", "ray": {"init": {}, "remote": given}}
        config = OmegaConf.create({"hydra": {"launcher": launcher}})
        prepared = launchers.prepared(config, of(condition(protocol=ALONE)), Path(), "study")
        assert prepared.hydra.launcher.ray.remote.memory == expected
