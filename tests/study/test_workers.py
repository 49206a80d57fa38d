"""A head and its workers as real processes: what they leave behind, and what is left when one of them is killed."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runners.lines import decode_line
from study.journal import read_past

TESTS = Path(__file__).parent.parent
FAKE = [
    "-m", f"hydra.searchpath=[file://{TESTS / 'conf'}]", "framework=fake", "allocation=fake", "workload=elementwise",
    "workload.size=tiny", "protocol=smoke", "workload.batch_size=8,16", "study.blocks=2", "study.report=false",
]  # fmt: skip
LAUNCHER = "hydra/launcher=processes"
FOLDERS = [str(TESTS / "fake_framework"), str(TESTS / "launcher")]
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(FOLDERS), "COLUMNS": "200"}
SLOW = ["protocol.windows=40", "protocol.window_seconds=0.05"]


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    given = {one.partition("=")[0] for one in arguments}
    command = [sys.executable, "-m", "study", *(one for one in FAKE if one.partition("=")[0] not in given), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=ENVIRONMENT, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def study(folder: Path, *arguments: str) -> tuple[int, str]:
    process = start(folder, *arguments)
    text, _ = process.communicate(timeout=180)
    return process.returncode, text


def bodies(folder: Path, kind: str) -> list[dict[str, object]]:
    """Every line of a kind in all journals of a study."""
    lines = [line for path in (folder / "journal").glob("*.jsonl") for line in path.read_text().splitlines()]
    return [body for line in lines if (body := decode_line(line))["kind"] == kind]


def workers(folder: Path) -> list[int]:
    """Processes that were given a batch of this study."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if b"-c" in words and any(word.startswith(str(folder / "jobs").encode()) for word in words):
            found.append(int(process.name))
    return found


def until_a_trial_runs(folder: Path, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and process.poll() is None:
        past = read_past(folder)
        if set(past.begun) - past.ended and list((folder / "logs").glob("*.err")):
            return
        time.sleep(0.05)
    raise AssertionError(process.communicate()[0])


def test_workers_run_the_trials_of_a_local_sweep_each_block_into_one_journal(tmp_path: Path) -> None:
    assert study(tmp_path, "study.name=local")[0] == 0
    status, text = study(tmp_path, "study.name=away", LAUNCHER)
    assert status == 0, text
    assert "4/4" in text
    local, away = (read_past(tmp_path / "outputs" / name) for name in ("local", "away"))
    assert away.done() == local.done()
    assert len(away.done()) == 4
    # a head and two workers; each block by one of them
    assert len(away.sessions) == 3
    of_block = {block: {one.session_id for one in away.records.values() if one.spec.block == block} for block in (0, 1)}
    assert [len(sessions) for sessions in of_block.values()] == [1, 1]
    assert of_block[0] != of_block[1]
    assert set(away.begun) == away.ended
    assert list((tmp_path / "outputs" / "away" / "jobs").iterdir()) == []


def test_a_dry_run_is_that_of_a_local_sweep_and_says_what_would_go_out(tmp_path: Path) -> None:
    here, away = (study(tmp_path, "study.dry_run=true", *more) for more in ([], [LAUNCHER]))
    assert here[0] == away[0] == 0
    assert away[1] == f"{here[1]}jobs: 2, trials in a job: 2; a job asks for: nothing\n"
    assert list(tmp_path.iterdir()) == []


def test_on_a_terminal_the_head_counts_what_its_workers_have_done(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "study", *FAKE, "study.name=one", LAUNCHER, *SLOW]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # how Linux says that nobody writes to the terminal any more
            while piece := os.read(ours, 1 << 16):
                shown += piece
    os.close(ours)
    assert process.returncode == 0, shown
    counted = [int(one) for one in re.findall(rb"(\d)/4 \S+ ", shown)]
    assert counted == sorted(counted)
    assert {0, 2} <= set(counted), shown


def test_without_pairing_by_node_trials_that_do_not_take_turns_go_out_one_by_one(tmp_path: Path) -> None:
    arguments = ["protocol.interleave=false", "study.pairing=none", "study.name=one", LAUNCHER]
    status, text = study(tmp_path, *arguments)
    assert status == 0, text
    records = read_past(tmp_path / "outputs" / "one").records.values()
    assert len({one.session_id for one in records}) == len(records) == 4


@pytest.mark.parametrize("pairing", ["node", "none"])
def test_the_tenants_of_a_co_location_go_out_together(tmp_path: Path, pairing: str) -> None:
    arguments = ["workload.batch_size=8", "study.blocks=1", "colocation=solo,2*fake", f"study.pairing={pairing}"]
    status, text = study(tmp_path, *arguments, "study.name=one", LAUNCHER)
    assert status == 0, text
    records = read_past(tmp_path / "outputs" / "one").records.values()
    tenants = [one for one in records if one.spec.tenancy is not None]
    assert len(records) == 3 and len(tenants) == 2
    assert len({one.session_id for one in tenants}) == 1
    spans = [one.report.timings.phase_start_seconds for one in tenants]
    assert max(one["ready_device"] for one in spans) < min(one["done"] for one in spans)


def test_a_killed_worker_leaves_a_record_and_a_resume_runs_what_is_missing(tmp_path: Path) -> None:
    arguments = [LAUNCHER, "study.name=one", "protocol.interleave=false", *SLOW]
    folder = tmp_path / "outputs" / "one"
    process = start(tmp_path, *arguments)
    until_a_trial_runs(folder, process)
    # the one at work has the processors; the other waits for them
    past = read_past(folder)
    ((session_id, trial_id),) = set(past.begun) - past.ended
    for pid in workers(folder):
        os.kill(pid, signal.SIGKILL)
    text, _ = process.communicate(timeout=180)
    assert process.returncode == 1, text
    assert "trials have no record (the launcher lost a job: a job ended with status -9)" in text
    lost = read_past(folder).records[trial_id]
    assert (lost.outcome.kind, lost.outcome.reason, lost.session_id) == ("crash", "worker lost", session_id)
    status, text = study(tmp_path, *arguments)
    assert status == 0, text
    assert len(read_past(folder).done()) == 4


def test_a_head_that_is_killed_is_followed_by_another_and_nothing_runs_twice(tmp_path: Path) -> None:
    arguments = [LAUNCHER, "study.name=one", "protocol.interleave=false", *SLOW]
    folder = tmp_path / "outputs" / "one"
    process = start(tmp_path, *arguments)
    until_a_trial_runs(folder, process)
    process.kill()
    process.wait()
    process.stdout.close()  # type: ignore[union-attr]
    status, text = study(tmp_path, *arguments)
    assert status == 0, text
    found = [(body["outcome"]["kind"], body["spec"]["trial_id"]) for body in bodies(folder, "trial")]  # type: ignore[index]
    assert [kind for kind, _ in found] == ["ok"] * 4
    assert len(set(found)) == 4


def test_a_local_study_does_not_meet_workers_in_its_folder(tmp_path: Path) -> None:
    folder = tmp_path / "outputs" / "one"
    process = start(tmp_path, LAUNCHER, "study.name=one", *SLOW)
    until_a_trial_runs(folder, process)
    process.kill()
    process.wait()
    process.stdout.close()  # type: ignore[union-attr]
    status, text = study(tmp_path, "study.name=one", *SLOW)
    for pid in workers(folder):
        os.kill(pid, signal.SIGKILL)
    assert status == 2
    assert "workers of an earlier sweep are still at work in outputs/one" in text


def test_a_launcher_without_its_plugin_is_said_with_the_line_that_brings_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HIDDEN, *FAKE, "hydra/launcher=ray"]
    process = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert process.returncode == 2
    assert process.stderr.strip() == (
        "hydra/launcher=ray needs a plug-in that is not installed; bring it with: pip install -e '.[ray]'"
    )


HIDDEN = """
import importlib.util, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if "ray" in name else found(name, *more)
from study.__main__ import run
sys.exit(run(sys.argv[1:]))
"""
