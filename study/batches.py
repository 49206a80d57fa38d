"""A design cut into batches: what one job of a launcher runs on one node.

study.pairing=node keeps a whole block on one node, so that everything compared in it met the same machine. With
study.pairing=none the pieces of a block go anywhere: a piece is one trial, or a group whose trials are alive together.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from runners.records import TrialRecord
from runners.specs import TrialSpec
from study import leases
from study.applicability import evidence
from study.config import Condition, StudyOptions
from study.design import Design, alive_together, trial
from study.errors import RequestError
from study.schema import EvidenceRequest

JOBS = "jobs"


@dataclass(frozen=True)
class Planned:
    """A trial as its head knows it; what depends on the machine is filled in where it runs."""

    condition: Condition
    block: int
    order: int

    def spec(self, seed: int, with_entry: bool = True) -> TrialSpec:
        """The trial, for the machine that asks."""
        return trial(self.condition, self.block, self.order, seed, with_entry)


Group = tuple[Planned, ...]


@dataclass(frozen=True)
class Batch:
    """What a worker needs: whose study it is, where its folder lies, and the groups to run, in order.

    `head` is the session id of the process that made it. `working_folder` is where relative paths begin. `until` is the
    time (seconds since 1970) after which no further group is begun. `design` holds the batch's conditions only, and
    `records` what was on record of its trials when it was made.
    """

    head: str
    study: str
    folder: str
    working_folder: str
    design: Design
    options: StudyOptions
    groups: tuple[Group, ...]
    records: dict[str, TrialRecord]
    until: float | None = None

    def ids(self, group: Group) -> list[str]:
        """The trial ids of one group."""
        return [one.spec(self.design.seed, with_entry=False).trial_id for one in group]


def cut(
    design: Design, options: StudyOptions, blocks: Iterable[int], is_done: Callable[[TrialSpec], bool]
) -> list[tuple[Group, ...]]:
    """The groups of every batch of these blocks. Groups that are done are left out, and so are batches without any."""
    by_id = {one.condition_id: _frozen(one) for one in design.conditions}

    def planned(specs: list[TrialSpec]) -> Group:
        return tuple(Planned(by_id[one.condition_id], one.block, one.order) for one in specs)

    batches: list[tuple[Group, ...]] = []
    for block in blocks:
        groups = [group for group in design.block(block) if not all(is_done(spec) for spec in group)]
        if options.pairing == "node":
            batches.append(tuple(planned(group) for group in groups))
            continue
        pieces = [piece for group in groups for piece in _pieces(group) if not all(is_done(spec) for spec in piece)]
        size = options.trials_per_job or 1
        batches += [tuple(map(planned, part)) for part in _parts(pieces, size)]
    return [batch for batch in batches if batch]


def counted(jobs: Sequence[Sequence[Group]]) -> str:
    """How many jobs these batches are, and of how many trials."""
    sizes = [sum(map(len, job)) for job in jobs]
    least, most = min(sizes, default=0), max(sizes, default=0)
    return f"jobs: {len(jobs)}, trials in a job: {least if least == most else f'{least} to {most}'}"


def save(batch: Batch, name: str) -> Path:
    """Put a batch into its study's folder, for as long as its job may run. Returns the file's path."""
    path = Path(batch.folder) / JOBS / f"{name}.pickle"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(pickle.dumps(batch))
    return path


def load(path: Path) -> Batch:
    """A batch that `save` has written."""
    batch = pickle.loads(path.read_bytes())
    assert isinstance(batch, Batch), f"{path} holds a {type(batch).__name__}"
    return batch


def withdraw(folder: Path, wait_for_none: bool = False) -> list[Path]:
    """Take back the batches that an earlier head left in the folder. Returns those that workers are at work on.

    Raises:
        RequestError: there are such, and `wait_for_none` is set: what runs here would meet them.
    """
    running = [path for path in sorted((folder / JOBS).glob("*.pickle")) if not leases.withdraw(path)]
    if running and wait_for_none:
        raise RequestError(
            f"{len(running)} workers of an earlier sweep are still at work in {folder}; wait for them, end their jobs, "
            "or resume with the same hydra/launcher, which runs beside them"
        )
    return running


def only(design: Design, groups: tuple[Group, ...]) -> Design:
    """The design with the conditions of these groups only."""
    return replace(design, conditions=tuple(one.condition for group in groups for one in group), unlaunched={})


def _frozen(condition: Condition) -> Condition:
    """The condition with its evidence settled: what `auto` means was decided once, and the trial ids follow from it."""
    return replace(condition, evidence=EvidenceRequest(evidence(condition).value))


def _pieces(group: list[TrialSpec]) -> list[list[TrialSpec]]:
    return [group] if alive_together(group[0]) else [[spec] for spec in group]


def _parts(pieces: list[list[TrialSpec]], size: int) -> list[list[list[TrialSpec]]]:
    """The pieces in order, so many trials together at the most (but never less than a piece)."""
    parts: list[list[list[TrialSpec]]] = []
    for piece in pieces:
        if parts and sum(map(len, parts[-1])) + len(piece) <= size:
            parts[-1].append(piece)
        else:
            parts.append([piece])
    return parts
