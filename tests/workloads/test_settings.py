"""Settings of a workload that are refused before anything is launched, and those that make another condition."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

import pytest
import yaml

from runners import workloads
from runners.faults import TrialFault
from study import workload
from study.errors import RequestError
from study.schema import Mode, Size, Tracing, Workload
from tests.runners.harness import ROOT, environment


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


@pytest.mark.parametrize("found", [3, {"width": 4}, {"batch_size": 2.5}, {"batch_size": "4"}, {"batch_size": True}])
def test_a_level_of_the_users_own_says_integers_for_a_size(found: Any) -> None:
    with pytest.raises(RequestError) as caught:
        workload.workload_spec(_workload("mlp", sizes={"tiny": found}))
    text = f"workload.sizes.tiny={found} is not possible; it takes integers by name, batch_size among them"
    assert str(caught.value) == text


LEVEL = """
defaults: [file, _self_]
path: {path}
shape: {{width: 64}}
sizes:
  tiny: {{batch_size: 4, width: 32}}
"""


@pytest.mark.parametrize("option", ["hydra.searchpath=[file://{folder}]", "--config-dir={folder}"])
def test_a_level_outside_the_package_builds_on_one_inside(tmp_path, option: str) -> None:
    level = tmp_path / "levels" / "workload" / "mine.yaml"
    level.parent.mkdir(parents=True)
    level.write_text(LEVEL.format(path=ROOT / "tests/examples/own_workload.py"))
    command = [sys.executable, "-m", "study", "workload=mine", "workload.size=tiny", "protocol=smoke"]
    command += ["study.name=own", "study.report=false", option.format(folder=level.parents[1])]
    where = {**environment("jax"), "HOME": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=where, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (journal,) = (tmp_path / "outputs/own/journal").glob("*.jsonl")
    record = [json.loads(line) for line in journal.read_text().splitlines()][-1]
    asked = record["spec"]["workload"]
    assert (asked["name"], asked["batch_size"], asked["shape"]) == ("file", 4, {"width": 64})
    assert record["report"]["counts"]["parameters"] == 640


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


@pytest.mark.parametrize(
    ("level", "shape", "words"),
    [
        ("attention", {"heads": 3}, "workload.shape.width=32 is no multiple of workload.shape.heads=3"),
        ("gpt2_small", {"heads": 5}, "workload.shape.width=32 is no multiple of workload.shape.heads=5"),
        ("bert_base", {"width": 33}, "workload.shape.width=33 is no multiple of workload.shape.heads=2"),
        ("vit_b16", {"image": 17}, "workload.shape.image=17 is no multiple of workload.shape.patch=4"),
        ("churn", {"capacity_mib": 1, "largest_kib": 900}, "more than workload.shape.share_percent of capacity_mib"),
    ],
)
def test_dimensions_that_do_not_go_together_are_named(level: str, shape: dict[str, int], words: str) -> None:
    asked = workload.workload_spec(_workload(level, shape=shape))
    with pytest.raises(TrialFault, match=re.escape(words)) as caught:
        workloads.load(asked).inputs(asked, 0)
    assert caught.value.kind == "config"


def test_modes_reach_the_page() -> None:
    assert workload.workload_spec(_workload("gpt2_small", mode=Mode.infer)).mode == "infer"
    assert workload.workload_spec(_workload("dynamic_shapes", tracing=Tracing.signature)).tracing == "signature"
    assert workload.workload_spec(_workload("keras", model="MobileNetV2")).model == "MobileNetV2"
