"""Requests as a person types them: wrong ones end with status 2, one message and nothing launched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def study(folder: Path, *arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m study` in a folder and give what it printed."""
    command = [sys.executable, "-m", "study", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, **options)  # type: ignore[call-overload]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["framework=jaxx"], "Available options in 'framework':\n"),
        (["workload.sise=tiny"], "Did you mean workload.size?"),
        (["nonsense=1"], "Settings here: allocation, chip, colocation, "),
        (["workload.batch_size=0"], "workload.batch_size=0 is not possible; it takes an integer ≥ 1"),
        (["workload.shape.width=-1"], "workload.shape.width=-1 is not possible"),
        (["allocation.fraction=banana"], "Value 'banana' of type 'str' could not be converted to Float"),
        (["allocation=growth", "allocation.fraction=4.0"], "it takes a share of the memory, 0 < f ≤ 1"),
        (["allocation=growth", "allocation.fraction=-1"], "allocation.fraction=-1.0 is not possible"),
        (["allocation=growth", "allocation.fraction=100"], "more than all memory needs allocation=unified"),
        (["allocation=unified", "allocation.fraction=0.5"], "a fraction up to 1 would be ignored"),
        (["allocation=unified", "allocation.fraction=null"], "allocation.fraction=None is not possible"),
        (
            ["allocation=growth", "allocation.fraction=0.5", "allocation.limit_bytes=2000000"],
            "both set the cap; give one of them",
        ),
        (["workload.dtype=float8"], "expected one of [float32, bfloat16, float16]"),
        (["workload.dtype=float64"], "expected one of [float32, bfloat16, float16]"),
        (["evidence=guessed"], "expected one of [auto, measured, compiled]"),
        (["device.cpus=4096"], "device.cpus=4096 is not possible; it takes 1 to "),
        (["protocol.windows=0"], "protocol.windows=0 is not possible"),
        (["study.name=a/b"], "one folder name, without a slash"),
        (["study.resume=nowhere"], "holds no journal/"),
        (["study.primary=colour", "-m", "framework=jax,tf"], "study.primary=colour is no factor"),
        (["-m", "study.seed=1,2"], "belong to the whole study and take one value"),
        (["-m", "+experiment=a,b"], "experiment takes one preset at a time"),
        (["protocol=[smoke,quick]"], "levels of a sweep are separated by commas, without brackets"),
        (["workload=null"], "Got NoneType: choose a level by its name, or leave the group out"),
        (["framework.python=/nonexistent/python"], "the path of a Python interpreter"),
        (["+experiment=foo"], "foo"),
        (["+nonsense=1"], "a study has no such setting"),
        (["+protocol.deadlines.measrue=5"], "a study has no such setting"),
        (["allocation.name=growth"], "choose a level, as in allocation=LEVEL"),
        (["framework.name=tf"], "choose a level, as in framework=LEVEL"),
        (["-m", "framework=jax,tf", "framework=jax"], "framework is given twice"),
        (["workload.batch_size=999999999999999999999999999999"], "is not possible"),
        (["protocol.window_seconds=inf"], "protocol.window_seconds=inf is not possible"),
        (["protocol.warmup_steps=50", "protocol.warmup_max_steps=5"], "at most protocol.warmup_max_steps"),
        (["study.blocks=1000000"], "study.blocks=1000000 is not possible"),
        (
            ["-m", "workload.batch_size=range(1,1000000000000)"],
            "the sweep has 20,001 conditions or more",
        ),
        (["-m", "workload.batch_size=range(1,100)"], "99 conditions would take turns"),
        (["--run", "framework=jax"], "--run is Hydra's and goes past the study's sweeper"),
        (["hydra.mode=RUN"], "hydra.mode is Hydra's and goes past the study's sweeper"),
        (["hydra/sweeper=basic"], "goes past the study's sweeper"),
        # the second condition is wrong: the first must not have been started
        (["-m", "workload.batch_size=8,0"], "workload.batch_size=0 is not possible"),
    ],
)
def test_a_wrong_request_is_refused_before_anything_is_launched(
    tmp_path: Path, arguments: list[str], message: str
) -> None:
    finished = study(tmp_path, *arguments)
    assert finished.returncode == 2, finished.stderr
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr
    assert finished.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_an_interpreter_is_found_by_its_absolute_path(tmp_path: Path) -> None:
    finished = study(tmp_path, f"framework.python={sys.executable}", "study.dry_run=true")
    assert finished.returncode == 0, finished.stderr


def test_a_dry_run_lists_conditions_reasons_and_time(tmp_path: Path) -> None:
    finished = study(
        tmp_path, "-m", "framework=jax,tf", "allocation=default,growth", "study.dry_run=true", env={"COLUMNS": "160"}
    )
    assert finished.returncode == 0, finished.stderr
    assert "4 conditions, 5 blocks" in finished.stdout
    assert "JAX's CPU client has no pool that could grow" in finished.stdout
    assert "TF_CPU_ALLOCATOR_USE_BFC=1" in finished.stdout
    assert "estimated time: about" in finished.stdout
    assert list(tmp_path.iterdir()) == []


def test_help_names_every_group_level_and_setting(tmp_path: Path) -> None:
    finished = study(tmp_path, "--help", env={"COLUMNS": "160"})
    assert finished.returncode == 0
    for word in ("tf_graph", "glibc_retain", "elementwise", "paper", "workload.batch_size", "bytes", "Exit status"):
        assert word in finished.stdout


def test_the_configuration_can_be_printed(tmp_path: Path) -> None:
    finished = study(tmp_path, "--cfg", "job", "framework=tf_graph")
    assert finished.returncode == 0
    assert "compile: graph" in finished.stdout
    assert "hydra" not in finished.stdout


@pytest.mark.parametrize("device", ["gpu", "tpu"])
def test_an_absent_device_is_unavailable_and_never_the_cpu(tmp_path: Path, device: str) -> None:
    finished = study(tmp_path, f"device={device}", "evidence=measured", "study.name=absent")
    assert finished.returncode == 1, finished.stderr
    assert "device absent" in finished.stdout
    assert {"gpu": "no NVIDIA GPU", "tpu": "no TPU"}[device] in finished.stdout
    assert "Use device=cpu" in finished.stdout


def test_the_parent_imports_no_framework_and_no_pandas(tmp_path: Path) -> None:
    program = """
import sys
from study.__main__ import run
assert run(["-m", "framework=jax,tf", "study.dry_run=true"]) == 0
heavy = {"jax", "jaxlib", "tensorflow", "keras", "pandas", "scipy", "matplotlib", "seaborn", "pyarrow"}
print(sorted(heavy & set(sys.modules)))
"""
    finished = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert finished.stdout.splitlines()[-1] == "[]"
