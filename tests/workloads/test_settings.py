"""Settings of a workload that are refused before anything is launched, and those that make another condition."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from study import workload
from study.errors import RequestError
from study.schema import Mode, Size, Tracing, Workload
from tests.runners.harness import ROOT


def _workload(level: str, **changes: Any) -> Workload:
    """A level of conf/workload as Hydra would hand it over."""
    conf = yaml.safe_load((ROOT / f"conf/workload/{level}.yaml").read_text())
    typed = {"size": Size("tiny"), "mode": Mode(conf["mode"]) if conf.get("mode") else None}
    typed["tracing"] = Tracing(conf["tracing"]) if conf.get("tracing") else None
    kept = {key: conf[key] for key in ("name", "donate", "shape", "sizes", "modes", "model", "path") if key in conf}
    return Workload(**{**kept, **typed, **changes})


@pytest.mark.parametrize(
    ("level", "changes", "words"),
    [
        ("matmul", {"mode": Mode.infer}, "workload.mode=infer has no meaning for matmul, which has one step only"),
        ("mlp", {"model": "ResNet50"}, "workload.model=ResNet50 has no meaning for mlp; it is for workload=keras"),
        ("mlp", {"tracing": Tracing.signature}, "it is for workload=dynamic_shapes"),
        ("mlp", {"path": "x.py"}, "workload.path=x.py has no meaning for mlp; it is for workload=file"),
        ("file", {}, "workload=file needs workload.path"),
        ("file", {"path": "absent.py"}, "workload.path=absent.py is not possible; it takes the path of a Python file"),
        ("file", {"path": "README.md"}, "workload.path=README.md is not possible"),
        ("keras", {"model": None}, "workload=keras needs workload.model"),
        ("vit_b16", {"shape": {"depth": 3}}, "workload.shape.depth is no dimension of vit_b16"),
    ],
)
def test_settings_that_mean_nothing_are_refused(level, changes, words, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(RequestError) as caught:
        workload.workload_spec(_workload(level, **changes))
    assert words in str(caught.value)


def test_a_file_takes_dimensions_of_its_own(monkeypatch) -> None:
    monkeypatch.chdir(ROOT / "tests" / "study")
    spec = workload.workload_spec(_workload("file", path="../examples/own_workload.py", shape={"width": 64}))
    assert (spec.shape, spec.path) == ({"width": 64}, "../examples/own_workload.py")


def test_an_edited_file_is_another_condition_and_another_place_is_not(tmp_path) -> None:
    first, again = tmp_path / "step.py", tmp_path / "other" / "step.py"
    again.parent.mkdir()
    first.write_text("a = 1")
    again.write_text("a = 1")
    version = workload.page_version(str(first))
    assert version == workload.page_version(str(again))
    first.write_text("a = 2")
    assert version != workload.page_version(str(first))
    assert str(tmp_path) not in (version or "")


def test_modes_reach_the_page() -> None:
    assert workload.workload_spec(_workload("gpt2_small", mode=Mode.infer)).mode == "infer"
    assert workload.workload_spec(_workload("dynamic_shapes", tracing=Tracing.signature)).tracing == "signature"
    assert workload.workload_spec(_workload("keras", model="MobileNetV2")).model == "MobileNetV2"
