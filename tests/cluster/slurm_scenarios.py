"""What only Slurm does: jobs that go back into the queue, nodes that are drained, that die, or that are unlike."""

from __future__ import annotations

import os
from pathlib import Path

from namespaces import Node
from scenarios import one_lost_and_resumed
from slurm import MEMORY_MIB, Slurm
from sweeps import BLOCKS, CONDITIONS, TRIALS, Launcher, answered, check, compare, finished, until_at_work

from study.journal import read_past

NO_REQUEUE = "+hydra.launcher.additional_parameters.no_requeue=true"


def a_requeued_job(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """Slurm takes a running job back into its queue: it goes on where it was."""
    process = launcher.start(folder, "study.name=requeued", "study.report=true")
    until_at_work(folder / "outputs" / "requeued", process, records=1)
    slurm.says("scontrol", "requeue", next(iter(slurm.running_jobs())))
    _whole(folder, "requeued", finished(process))
    _whole_nodes(slurm, folder, "requeued")


def blocks_stay_on_a_node(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """study.pairing=node: the conditions of a block meet one node, and both nodes are used."""
    _whole(folder, "node", launcher.sweep(folder, "node", report=True))
    sessions = _sessions_of_blocks(folder / "outputs" / "node")
    check([len(one) for one in sessions] == [1] * BLOCKS, f"each block in one journal, found {sessions}", "")
    _on_both(slurm, folder, "node")
    _whole_nodes(slurm, folder, "node")


def conditions_go_anywhere(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """study.pairing=none: a trial is a job, and goes to whichever node is free."""
    _whole(folder, "none", launcher.sweep(folder, "none", "study.pairing=none", report=True))
    sessions = _sessions_of_blocks(folder / "outputs" / "none")
    check([len(one) for one in sessions] == [CONDITIONS] * BLOCKS, f"each trial in a journal, found {sessions}", "")
    _on_both(slurm, folder, "none")


def unlike_nodes(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """One node has one core: its trials are compared with none of the other's, and the report says so."""
    slurm.restart(slurm.nodes[1], "taskset", "--cpu-list", "0")
    _whole(folder, "unlike", launcher.sweep(folder, "unlike", "study.pairing=none", report=True))
    study = folder / "outputs" / "unlike"
    past = read_past(study)
    cores = {one["session_id"]: one["provenance"]["machine"]["cores_usable"] for one in past.sessions}
    ran = {(one.provenance_hash, cores[one.session_id]) for one in past.records.values()}
    check(len(ran) == 2, f"every record has its own node's provenance, found {ran}", "")
    told = "The trials come from 2 different machines or sets of versions. They are never pooled"
    check(told in (study / "report.html").read_text(), "the report says that unlike nodes are not compared", "")
    slurm.restart(slurm.nodes[1])


def a_drained_node(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """A node is drained and its job put back: the other node goes on where it was."""
    process = launcher.start(folder, "study.name=drained", "study.report=true")
    until_at_work(folder / "outputs" / "drained", process)
    job, name = next(iter(slurm.running_jobs().items()))
    slurm.says("scontrol", "update", f"nodename={name}", "state=drain", "reason=test")
    slurm.says("scontrol", "requeue", job)
    _whole(folder, "drained", finished(process))
    slurm.says("scontrol", "update", f"nodename={name}", "state=resume")
    slurm.until_idle(name)


def a_dead_node(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """Every process of a node is gone at once, and its job is not put back: the same as a killed job."""
    process = launcher.start(folder, "study.name=dead", "study.report=false", NO_REQUEUE)
    until_at_work(folder / "outputs" / "dead", process)
    node = _node_at_work(slurm)
    node.die()
    ended = finished(process)
    slurm.restart(node)
    one_lost_and_resumed(launcher, folder, "dead", ended)


def a_dead_node_whose_job_goes_on_elsewhere(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """The same as Slurm is by default: it puts the job back itself, and nothing is left to resume."""
    process = launcher.start(folder, "study.name=elsewhere", "study.report=true")
    until_at_work(folder / "outputs" / "elsewhere", process)
    node = _node_at_work(slurm)
    node.die()
    _whole(folder, "elsewhere", finished(process))
    slurm.restart(node)


def a_killed_slurmd(launcher: Launcher, folder: Path, slurm: Slurm) -> None:
    """Slurm's own process on a node is killed, its worker lives on: whatever Slurm then does, nothing is repeated."""
    process = launcher.start(folder, "study.name=slurmd", "study.report=true")
    until_at_work(folder / "outputs" / "slurmd", process)
    node = _node_at_work(slurm)
    slurm.kill_slurmd(node)
    _whole(folder, "slurmd", finished(process))
    slurm.restart(node)


def _whole(folder: Path, name: str, ended: tuple[int, str]) -> None:
    """All of the sweep is there."""
    status, text = ended
    check(status == 0, f"the sweep ends with 0, found {status}", text)
    check(f"{TRIALS}/{TRIALS}" in text, f"the progress line came to {TRIALS}/{TRIALS}", text)
    check(len(answered(folder / "outputs" / name)) == TRIALS, "every trial was answered", text)
    compare(folder, name, text)


def _node_at_work(slurm: Slurm) -> Node:
    name = next(iter(slurm.running_jobs().values()))
    return next(one for one in slurm.nodes if one.name == name)


def _sessions_of_blocks(study: Path) -> list[set[str]]:
    records = read_past(study).records.values()
    return [{one.session_id for one in records if one.spec.block == block} for block in range(BLOCKS)]


def _on_both(slurm: Slurm, folder: Path, name: str) -> None:
    used = sorted(set(_accounted(slurm, folder, name, "NodeList")))
    check(used == sorted(one.name for one in slurm.nodes), f"both nodes had jobs, found {used}", "")


def _whole_nodes(slurm: Slurm, folder: Path, name: str) -> None:
    """Conditions on the CPU get all cores and all memory of a node: CR_Core_Memory gives neither to two jobs."""
    given = set(_accounted(slurm, folder, name, "AllocTRES%80"))
    wanted = f"billing={os.cpu_count()},cpu={os.cpu_count()},mem={MEMORY_MIB}M,node=1"
    check(given == {wanted}, f"each job had a whole node with its memory, found {given}", "")


def _accounted(slurm: Slurm, folder: Path, name: str, column: str) -> list[str]:
    """What Slurm's own accounting says of the jobs of a sweep."""
    heads = [one["session_id"] for one in read_past(folder / "outputs" / name).sessions if "seed" in one["design"]]
    jobs = ("--noheader", "--allocations", f"--name=study-{heads[0]}")
    return slurm.says("sacct", *jobs, f"--format={column}").split()
