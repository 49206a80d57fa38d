"""Settings composed the short way are those that Hydra composes, and are refused in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from runners.records import Evidence
from runners.specs import DeviceSpec
from study import compose, devices, schema, sweeper
from study.__main__ import conf_folder
from study.applicability import evidence, without_launch
from study.batches import cut
from study.config import StudyOptions
from study.design import plan
from study.errors import RequestError
from tests.study.samples import condition


@pytest.fixture
def composer() -> Iterator[compose.Composer]:
    schema.register()
    sweeper.register()
    with initialize_config_dir(str(Path(conf_folder()).resolve()), version_base="1.3"):
        hydra = GlobalHydra.instance()
        master = hydra.hydra.compose_config("config", [], run_mode=RunMode.MULTIRUN, with_log_configuration=False)
        yield compose.Composer(hydra.config_loader(), master)


def test_a_second_whole_number_is_what_hydra_makes_of_it(composer: compose.Composer) -> None:
    for key in ("workload.batch_size", "workload.donate", "protocol.window_seconds", "study.name"):
        first, second = (composer.settings([f"{key}={value}"]) for value in (1, 0))
        assert (first, second) == tuple(compose.typed(composer.compose([f"{key}={value}"])) for value in (1, 0))


@pytest.mark.parametrize(
    "lines",
    [
        ["workload.batch_size=3"],
        ["workload.batch_size=0"],
        ["workload.batch_size=-7", "study.seed=12"],
        ["framework=tf", "workload.dtype=bfloat16", "workload.donate=false"],
        ["allocation=growth", "allocation.fraction=0.5", "protocol=paper", "protocol.half_width=null"],
        ["workload.shape.width=64", "workload.shape.layers=2"],
        ["+workload.shape.own=5"],
        ["protocol.deadlines={total:9.5}", "evidence=compiled", "device=tpu", "chip=v5e"],
        ["study.name='odd name'", "study.primary=allocation", "workload.size=tiny", "device.cpus=1"],
        ["chip.name=${workload.name}"],
    ],
)
def test_the_short_way_gives_what_hydra_gives(composer: compose.Composer, lines: list[str]) -> None:
    assert composer.settings(lines) == compose.typed(composer.compose(lines))


@pytest.mark.parametrize(
    "line",
    ["workload.batch_size=many", "workload.dtype=float99", "workload.batchsize=3", "protocol.windows=1.5", "a.b=4"],
)
def test_what_is_refused_is_refused_in_the_same_words(composer: compose.Composer, line: str) -> None:
    with pytest.raises(RequestError) as short:
        composer.settings([line])
    with pytest.raises(RequestError) as long:
        composer.compose([line])
    assert str(short.value) == str(long.value)


def test_conditions_of_one_sweep_do_not_touch_each_other(composer: compose.Composer) -> None:
    first = composer.settings(["workload.shape.width=64", "workload.batch_size=3"])
    second = composer.settings(["workload.batch_size=4"])
    assert (first.workload.shape["width"], first.workload.batch_size) == (64, 3)
    assert (second.workload.shape["width"], second.workload.batch_size) == (None, 4)


def test_devices_of_other_machines_are_left_to_the_workers_there(monkeypatch: pytest.MonkeyPatch) -> None:
    on_gpu = condition(device=DeviceSpec("gpu"), extra={"device": "gpu"})
    monkeypatch.setattr(devices.PLACE, "elsewhere", True)
    assert evidence(on_gpu) is Evidence.MEASURED
    design = plan([on_gpu], swept=[], primary=None, seed=0, blocks=1)
    assert design.unlaunched == {}
    options = StudyOptions("one", 0, None, None, None, False, False, None)
    ((group,),) = cut(design, options, [0], lambda _: False)
    (planned,) = group
    (spec,) = design.block(0)[0]
    monkeypatch.setattr(devices.PLACE, "elsewhere", False)
    monkeypatch.setattr(devices, "absence", lambda _: "no GPU in this test")
    outcome = without_launch(planned.condition)
    assert outcome is not None
    assert outcome.kind == "unavailable"
    assert planned.spec(0, with_entry=False) == replace(spec, allocation=planned.spec(0, with_entry=False).allocation)
