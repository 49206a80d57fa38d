"""How a design is cut into jobs, who may run a group, what a launcher is asked for, and journals that still grow."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from study import batches, launchers, leases
from study.config import StudyOptions
from study.design import Design, plan
from study.errors import RequestError
from study.journal import Journal, JournalTail, read_past
from study.needs import Needs
from tests.study.samples import PROTOCOL, condition, record, session, spec

OPTIONS = StudyOptions("one", 0, None, None, None, False, False, None)
ALONE = replace(PROTOCOL, interleave=False)


def design(protocol: object = ALONE, sizes: int = 3) -> Design:
    """`sizes` groups of two frameworks, two blocks."""
    conditions = [
        condition(framework, extra={"workload.batch_size": size}, protocol=protocol)
        for size in range(sizes)
        for framework in ("fake", "other")
    ]
    return plan(conditions, swept=["framework", "workload.batch_size"], primary="framework", seed=1, blocks=2)


def ids(made: Design, cut: list[tuple[batches.Group, ...]]) -> list[list[list[str]]]:
    return [[[one.spec(made.seed, False).trial_id for one in group] for group in batch] for batch in cut]


def test_a_batch_is_a_whole_block_in_its_order() -> None:
    made = design()
    cut = batches.cut(made, OPTIONS, range(2), lambda _: False)
    assert ids(made, cut) == [[[one.trial_id for one in group] for group in made.block(block)] for block in (0, 1)]


def test_pieces_go_out_by_themselves_or_so_many_at_a_time() -> None:
    anywhere = replace(OPTIONS, pairing="none")
    cut = batches.cut(design(), anywhere, [0], lambda _: False)
    assert [[len(group) for group in batch] for batch in cut] == [[1]] * 6
    packed = batches.cut(design(), replace(anywhere, trials_per_job=4), [0], lambda _: False)
    assert [[len(group) for group in batch] for batch in packed] == [[1, 1, 1, 1], [1, 1]]
    turns = batches.cut(design(PROTOCOL), replace(anywhere, trials_per_job=3), [0], lambda _: False)
    assert [[len(group) for group in batch] for batch in turns] == [[2], [2], [2]]


def test_what_is_done_is_not_sent_out_again() -> None:
    made = design()
    first = {one.trial_id for one in made.block(0)[0]}
    cut = batches.cut(made, OPTIONS, range(2), lambda one: one.block == 1 or one.trial_id in first)
    assert ids(made, cut) == [[[one.trial_id for one in group] for group in made.block(0)[1:]]]


def test_a_lease_ends_with_its_owner_and_names_it_to_the_next(tmp_path: Path) -> None:
    code = "import sys, time; from pathlib import Path; from study import leases\n"
    code += "with leases.lease(Path(sys.argv[1]), ['b', 'a'], 'owner'): print('held', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "held\n"
        assert leases.is_held(tmp_path, ["a", "b"])
        assert not leases.is_held(tmp_path, ["a"])
        owner.kill()
    assert not leases.is_held(tmp_path, ["a", "b"])
    with leases.lease(tmp_path, ["a", "b"], "next") as owners:
        assert owners == ["owner"]


def test_a_batch_can_be_taken_back_until_a_worker_has_it(tmp_path: Path) -> None:
    path = tmp_path / "jobs" / "one.pickle"
    path.parent.mkdir()
    path.write_bytes(b"")
    with leases.presence(path):
        assert leases.is_present(path)
        assert batches.withdraw(tmp_path) == [path]
        with pytest.raises(RequestError, match="1 workers of an earlier sweep are still at work"):
            batches.withdraw(tmp_path, wait_for_none=True)
    assert batches.withdraw(tmp_path, wait_for_none=True) == []
    assert not path.exists()


def test_a_growing_journal_is_read_line_by_line_and_announcements_are_no_records(tmp_path: Path) -> None:
    tail = JournalTail(tmp_path)
    assert tail.refresh() == []
    first, second = record(0), record(1)
    with Journal(tmp_path, session("a")) as journal:
        journal.begin([spec(0), spec(1)])
        journal.append(first)
        assert tail.refresh() == [first]
        path = tmp_path / "journal" / "a.jsonl"
        whole = path.read_bytes()
        journal.append(second)
        line = path.read_bytes()[len(whole) :]
        path.write_bytes(whole + line[:50])
        assert tail.refresh() == []
        path.write_bytes(whole + line)
        assert tail.read(["a", "gone"]) == [second]
    assert set(tail.past.begun) == {("a", first.spec.trial_id), ("a", second.spec.trial_id)}
    assert tail.past.ended == set(tail.past.begun)
    again = read_past(tmp_path)
    assert (again.records, again.begun, again.bad_lines) == (tail.past.records, tail.past.begun, [])


SLURM = {
    "_target_": "x", "submitit_folder": "${hydra.sweep.dir}/.submitit/%j", "name": "${hydra.job.name}",
    "cpus_per_task": None, "gpus_per_node": None, "mem_gb": None, "gres": None, "additional_parameters": {},
}  # fmt: skip


def filled(launcher: dict[str, object], kind: str, cpus: int | None = None) -> DictConfig:
    config = OmegaConf.create({"hydra": {"launcher": launcher, "sweep": {"dir": "."}, "job": {"name": "study"}}})
    return launchers.prepared(config, Needs(frozenset({kind}), cpus), Path("/shared/one"), "study-a")


def prepared(launcher: dict[str, object], kind: str, cpus: int | None = None) -> dict[str, object]:
    return OmegaConf.to_container(filled(launcher, kind, cpus).hydra.launcher, resolve=True)  # type: ignore[return-value]


def test_slurm_is_asked_for_what_the_conditions_need() -> None:
    on_gpu = prepared(SLURM, "gpu", cpus=4)
    assert (on_gpu["gpus_per_node"], on_gpu["cpus_per_task"], on_gpu["additional_parameters"]) == (1, 4, {})
    assert (on_gpu["name"], on_gpu["submitit_folder"]) == ("study-a", "/shared/one/.submitit/%j")
    on_cpu = prepared(SLURM, "cpu")
    assert (on_cpu["gpus_per_node"], on_cpu["additional_parameters"]) == (None, {"exclusive": True})


def test_a_whole_node_of_slurm_comes_with_its_memory_and_a_device_with_the_clusters_default() -> None:
    assert prepared(SLURM, "cpu")["mem_gb"] == 0
    assert prepared(SLURM, "gpu")["mem_gb"] is None
    assert prepared({**SLURM, "mem_gb": 7}, "cpu")["mem_gb"] == 7
    assert prepared({**SLURM, "mem_per_cpu": "2G"}, "cpu")["mem_gb"] is None
    assert prepared({**SLURM, "additional_parameters": {"mem": "9G"}}, "cpu")["mem_gb"] is None
    assert prepared({**SLURM, "additional_parameters": {"oversubscribe": True}}, "cpu")["mem_gb"] is None


def test_what_a_job_asks_for_is_said_without_what_is_left_to_the_cluster() -> None:
    assert launchers.asked(filled(SLURM, "gpu", cpus=4)) == "gpus_per_node=1, cpus_per_task=4"
    assert launchers.asked(filled(SLURM, "cpu")) == "mem_gb=0, additional_parameters={'exclusive': True}"
    ray = {"_target_": "x", "ray": {"init": {}, "remote": {}}}
    assert launchers.asked(filled(ray, "tpu")) == "resources={'TPU': 1}"
    assert launchers.asked(filled({"_target_": "x"}, "cpu")) == "nothing"


def test_jobs_are_counted_with_their_trials() -> None:
    made = design()
    assert batches.counted(batches.cut(made, OPTIONS, range(2), lambda _: False)) == "jobs: 2, trials in a job: 6"
    packed = replace(OPTIONS, pairing="none", trials_per_job=4)
    assert batches.counted(batches.cut(made, packed, [0], lambda _: False)) == "jobs: 2, trials in a job: 2 to 4"
    assert batches.counted([]) == "jobs: 0, trials in a job: 0"


def test_what_the_user_asked_of_slurm_stays() -> None:
    given = {**SLURM, "gres": "gpu:a100:1", "name": "mine", "cpus_per_task": 9}
    found = prepared(given, "gpu", cpus=4)
    assert (found["gpus_per_node"], found["name"], found["cpus_per_task"]) == (None, "mine", 9)
    shared = prepared({**SLURM, "additional_parameters": {"oversubscribe": True}}, "cpu")
    assert shared["additional_parameters"] == {"oversubscribe": True}


def test_ray_is_asked_for_devices_as_it_counts_them() -> None:
    ray = {"_target_": "x", "ray": {"init": {"num_cpus": 6}, "remote": {}}}
    common = {"max_calls": 1, "max_retries": 0}
    assert prepared(ray, "gpu", cpus=4)["ray"]["remote"] == {**common, "num_gpus": 1, "num_cpus": 4}  # type: ignore[index]
    assert prepared(ray, "tpu")["ray"]["remote"] == {**common, "resources": {"TPU": 1}}  # type: ignore[index]
    assert prepared(ray, "cpu")["ray"]["remote"] == {**common, "num_cpus": 6}  # type: ignore[index]
    own: dict[str, object] = {"_target_": "x", "ray": {"init": {}, "remote": {"num_cpus": 2, "max_retries": 3}}}
    assert prepared(own, "cpu")["ray"]["remote"] == {"num_cpus": 2, "max_retries": 3, "max_calls": 1}  # type: ignore[index]
