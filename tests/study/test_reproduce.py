"""`study reproduce DIR`: the recorded command again under a new name, then what became of the findings."""

from __future__ import annotations

import csv
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from study.errors import RequestError
from study.journal import Journal
from study.reproduce import free_name, recorded_command, repeated
from tests.study import samples


def recorded(folder: Path, *commands: str) -> Path:
    """A study's folder with one session a command."""
    for number, command in enumerate(commands):
        session = samples.session(f"s{number}")
        with Journal(folder, replace(session, started_utc=f"2026-01-0{number + 1}", design={"command": command})):
            pass
    return folder


def test_the_last_sessions_command_counts(tmp_path: Path) -> None:
    folder = recorded(
        tmp_path / "s", "python -m study framework=jax", "python -m study -m 'framework=jax,tf' study.name=x"
    )
    assert recorded_command(folder) == ["-m", "framework=jax,tf", "study.name=x"]


def test_what_belonged_to_the_run_is_left_out_and_overrides_replace() -> None:
    before = [
        "-m",
        "framework=jax,tf",
        "protocol=quick",
        "study.name=x",
        "study.resume=outputs/x",
        "study.max_seconds=9",
    ]
    after = repeated(before, "x-reproduced", ["protocol=smoke", "study.blocks=2"])
    assert after == ["-m", "framework=jax,tf", "protocol=smoke", "study.blocks=2", "study.name=x-reproduced"]


def test_a_preset_added_with_a_plus_is_kept() -> None:
    assert repeated(["-m", "+experiment=claims"], "n", [])[:2] == ["-m", "+experiment=claims"]


@pytest.mark.parametrize("word", ["framework.python=<environment>/bin/python", "workload.path=~/page.py"])
def test_a_folder_that_the_record_left_out_must_be_given_again(word: str) -> None:
    with pytest.raises(RequestError, match=word.split("=")[0]):
        repeated([word], "n", [])
    given = f"{word.split('=')[0]}=/here"
    assert repeated([word], "n", [given]) == [given, "study.name=n"]


def test_names_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert free_name("x", None) == "x-reproduced"
    (tmp_path / "outputs" / "x-reproduced-smoke").mkdir(parents=True)
    (tmp_path / "outputs" / "x-reproduced-smoke-2").mkdir()
    assert free_name("x", "smoke") == "x-reproduced-smoke-3"


def study(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "study", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["absent"], "holds no journal/"),
        (["s", "--scale", "huge"], "--scale huge is no protocol; it takes one of paper, quick, smoke, standard"),
        (["s", "tiny"], "tiny is no setting"),
        (["bare"], "recorded its command"),
        (["s", "workload.sise=tiny"], "Did you mean workload.size?"),
    ],
)
def test_wrong_requests_end_with_two(tmp_path: Path, arguments: list[str], message: str) -> None:
    recorded(tmp_path / "s", "python -m study framework=jax")
    with Journal(tmp_path / "bare", samples.session("s0")):
        pass
    ended = study(tmp_path, "reproduce", *arguments)
    assert ended.returncode == 2 and message in ended.stderr
    assert not (tmp_path / "outputs").exists()


def test_a_real_study_is_run_again_and_compared(tmp_path: Path) -> None:
    """Three blocks, then two: the same two conditions meet again."""
    shape = ("framework=jax", "workload=elementwise", "workload.size=tiny", "workload.batch_size=16,4096")
    asked = ("-m", *shape, "protocol=smoke", "study.blocks=3", "study.name=first")
    assert study(tmp_path, *asked).returncode == 0
    ended = study(tmp_path, "reproduce", "outputs/first", "--blocks", "2")
    assert ended.returncode in (0, 1), ended.stderr
    folder = tmp_path / "outputs" / "first-reproduced"
    assert (folder / "report.html").exists()
    said = (folder / "compare" / "compare.md").read_text(encoding="utf-8")
    assert "2 conditions compared" in said
    with (folder / "compare" / "findings.csv").open(newline="") as file:
        (finding,) = csv.DictReader(file)
    assert (finding["level_a"], finding["level_b"]) == ("batch_size 16", "batch_size 4096")
    assert float(finding["second_ratio"]) > 0 and finding["second_blocks_count"] == "2"
    assert "python -m study -m framework=jax" in ended.stdout and "study.name=first-reproduced" in ended.stdout
