"""Whole studies of the fake framework, as commands: what they leave behind, how they are interrupted and resumed."""

from __future__ import annotations

import csv
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest
import yaml

from study.journal import Past, read_past

TESTS = Path(__file__).parent.parent
FAKE = [
    "-m", f"hydra.searchpath=[file://{TESTS / 'conf'}]", "framework=fake", "allocation=fake", "workload=elementwise",
    "workload.size=tiny", "protocol=smoke", "study.name=one",
]  # fmt: skip
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(TESTS / "fake_framework"), "COLUMNS": "160"}


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """A study of the fake framework, started."""
    named = any(one.startswith("study.name=") for one in arguments)
    base = [one for one in FAKE if not (named and one.startswith("study.name="))]
    command = [sys.executable, "-m", "study", *base, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=pipe, stderr=pipe, text=True)


def study(folder: Path, *arguments: str, report: bool = False) -> tuple[int, str]:
    """Run it to its end: exit status, and everything it printed. The report takes seconds and is left out."""
    process = start(folder, *arguments, f"study.report={report}")
    out, err = process.communicate(timeout=120)
    return process.returncode, out + err


def past(folder: Path) -> Past:
    return read_past(folder / "outputs" / "one")


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "outputs" / "one" / "trials.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_sweep_leaves_the_whole_folder(tmp_path: Path) -> None:
    status, text = study(tmp_path, "workload.batch_size=8,16", "study.blocks=2", report=True)
    assert status == 0, text
    folder = tmp_path / "outputs" / "one"
    for name in ("journal", "manifest.yaml", "trials.csv", "report.html", "figures", "tables", "logs"):
        assert (folder / name).exists(), name
    assert len(list((folder / "logs").glob("*.err"))) >= 4
    manifest = yaml.safe_load((folder / "manifest.yaml").read_text())
    (session,) = manifest["sessions"]
    assert session["design"]["factors"] == {"workload.batch_size": [8, 16]}
    assert (session["design"]["seed"], session["design"]["blocks"]) == (0, 2)
    planned = [trial for block in session["design"]["order"] for trial in block]
    launched = sorted(past(tmp_path).records.values(), key=lambda one: one.report.timings.phase_start_seconds["launch"])
    assert [record.spec.trial_id for record in launched] == planned
    assert Counter((row["batch_size"], row["block"], row["outcome"]) for row in rows(tmp_path)) == {
        (size, block, "ok"): 1 for size in ("8", "16") for block in ("0", "1")
    }


def test_failures_are_rows_and_cost_nobody_else(tmp_path: Path) -> None:
    told = "framework.compile=none,measure:raise,compile:SIGSEGV,teardown:exit3"
    status, text = study(tmp_path, told, "study.blocks=1", "study.primary=compile", report=True)
    assert status == 1, text
    found = {row["compile"]: (row["outcome"], row["phase"], row["reason"]) for row in rows(tmp_path)}
    assert found == {
        "none": ("ok", "teardown", ""),
        "measure:raise": ("crash", "measure", "RuntimeError"),
        "compile:SIGSEGV": ("crash", "compile", "SIGSEGV"),
        "teardown:exit3": ("crash", "teardown", "SystemExit"),
    }
    texts = {record.spec.framework.compile: record.outcome.text for record in past(tmp_path).records.values()}
    assert "planted failure" in texts["measure:raise"]


def test_resuming_runs_what_failed_or_is_missing_and_nothing_else(tmp_path: Path) -> None:
    study(tmp_path, "framework.compile=none,measure:raise", "study.blocks=2", "study.primary=compile")
    before = {key: record.session_id for key, record in past(tmp_path).records.items()}
    status, text = study(tmp_path, "framework.compile=none,measure:raise", "study.blocks=3", "study.primary=compile")
    assert status == 1
    assert "2 finished trials are there already" in text
    sessions = {session["session_id"]: session for session in past(tmp_path).sessions}
    assert len(sessions) == 2
    latest = list(sessions)[-1]
    after = past(tmp_path).records
    again = {key for key, record in after.items() if key in before and record.session_id == latest}
    assert {after[key].spec.framework.compile for key in again} == {"measure:raise"}
    assert len(again) == 2
    assert len(after) == 6


def test_another_question_is_not_mixed_into_a_folder(tmp_path: Path) -> None:
    study(tmp_path, "study.blocks=1")
    for change in ("study.seed=1", "workload.batch_size=8,16"):
        status, text = study(tmp_path, change, "study.blocks=1")
        assert status == 2
        assert "outputs/one holds another study" in text
    assert len(past(tmp_path).records) == 1


def test_a_half_finished_group_of_other_versions_is_run_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = ["framework.compile=none,a", "study.primary=compile", "study.blocks=1"]
    study(tmp_path, *arguments)
    (journal,) = (tmp_path / "outputs" / "one" / "journal").iterdir()
    journal.write_text("".join(journal.read_text().splitlines(keepends=True)[:-1]))
    monkeypatch.setitem(ENVIRONMENT, "OPENBLAS_CORETYPE", "Another")
    study(tmp_path, *arguments)
    assert len({record.provenance_hash for record in past(tmp_path).records.values()}) == 1
    assert len(past(tmp_path).records) == 2


def test_odd_things_in_the_folder_cost_no_traceback(tmp_path: Path) -> None:
    study(tmp_path, "study.blocks=1")
    folder = tmp_path / "outputs" / "one"
    with next((folder / "journal").glob("*.jsonl")).open("a") as file:
        file.write('{"checksum":"[/x]","a":1}\n' + "[" * 200_000 + "\n")
    (folder / "journal" / "folder.jsonl").mkdir()
    (folder / "manifest.yaml").write_text("sessions: 5\n")
    status, text = study(tmp_path, "study.blocks=2")
    assert status == 0, text
    assert text.count("journal: left out") == 2


def test_the_same_command_again_runs_nothing(tmp_path: Path) -> None:
    study(tmp_path, "study.blocks=2")
    first = past(tmp_path).records
    status, _ = study(tmp_path, "study.blocks=2")
    assert status == 0
    assert past(tmp_path).records == first


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_study_keeps_what_is_finished_and_goes_on(tmp_path: Path, number: int, status: int) -> None:
    arguments = ["workload.batch_size=8,16", "study.blocks=3", "protocol.windows=20", "protocol.window_seconds=0.02"]
    process = start(tmp_path, *arguments)
    deadline = time.monotonic() + 60
    while len(past(tmp_path).records) < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == status, out + err
    assert "every finished trial is kept, the same command with study.resume=outputs/one runs the rest" in out
    kept = past(tmp_path).records
    assert 2 <= len(kept) < 6
    status, text = study(tmp_path, *arguments)
    assert status == 0, text
    done = past(tmp_path).records
    assert len(done) == 6
    assert {key: done[key] for key in kept} == kept


def is_running(pid: int) -> bool:
    """Whether the process lives; one that has ended may wait to be reaped here, where this process is a subreaper."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_killed_study_leaves_no_process_and_can_be_resumed(tmp_path: Path) -> None:
    arguments = ["study.blocks=2", "protocol.windows=200", "protocol.window_seconds=0.05"]
    process = start(tmp_path, *arguments)
    deadline = time.monotonic() + 60
    while not list((tmp_path / "outputs").glob("one/logs/*.err")) and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(1.0)
    children = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
    pids = [int(pid) for pid in children.stdout.split()]
    assert pids
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 5
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [pid for pid in pids if is_running(pid)] == []
    status, text = study(tmp_path, "study.blocks=2")
    assert status == 0, text


def test_a_bounded_study_stops_between_trials_and_says_how_to_go_on(tmp_path: Path) -> None:
    status, text = study(tmp_path, "study.blocks=50", "study.max_seconds=3")
    assert status == 1, text
    assert "stopped after study.max_seconds=3; study.resume=outputs/one runs the rest" in text
    assert 0 < len(past(tmp_path).records) < 50


def test_blocks_go_on_until_the_ratio_is_precise_or_the_cap_is_reached(tmp_path: Path) -> None:
    arguments = ["framework.compile=a,b", "study.primary=compile", "protocol.blocks=3", "protocol.max_blocks=5"]
    for half_width, blocks in (("0.99", 3), ("1e-9", 5)):
        status, text = study(tmp_path, *arguments, f"protocol.half_width={half_width}", f"study.name=w{blocks}")
        assert status == 0, text
        records = read_past(tmp_path / "outputs" / f"w{blocks}").records.values()
        assert {record.spec.block for record in records} == set(range(blocks))


def test_a_full_disk_is_said_and_what_is_on_disk_is_resumed(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "study", *FAKE, "study.blocks=40", "study.report=false"]
    limited = ["prlimit", "--fsize=60000", *command]
    full = subprocess.run(limited, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert full.returncode == 1, full.stderr
    assert "could not be written: File too large. Everything finished before is kept" in full.stderr
    kept = past(tmp_path)
    assert 2 < len(kept.records) < 40
    assert kept.bad_lines == []
    status, text = study(tmp_path, "study.blocks=40")
    assert status == 0, text
    assert len(past(tmp_path).records) == 40
    assert set(kept.records) <= set(past(tmp_path).records)


def test_resume_takes_the_folder_wherever_it_is(tmp_path: Path) -> None:
    study(tmp_path, "study.blocks=1")
    (tmp_path / "outputs" / "one").rename(tmp_path / "odd name ü")
    arguments = [one for one in FAKE if not one.startswith("study.name")]
    command = [
        sys.executable,
        "-m",
        "study",
        *arguments,
        "study.blocks=2",
        "study.resume='odd name ü'",
        "study.report=false",
    ]
    finished = subprocess.run(
        command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert len(read_past(tmp_path / "odd name ü").records) == 2


def test_other_code_or_versions_are_a_session_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study(tmp_path, "study.blocks=1")
    monkeypatch.setitem(ENVIRONMENT, "OPENBLAS_CORETYPE", "Another")
    _, text = study(tmp_path, "study.blocks=2")
    assert "versions, machine or code differ from the earlier session" in text
    assert len({session["provenance_hash"] for session in past(tmp_path).sessions}) == 2
