"""A worker: one batch of a study, on the machine that a launcher gave it, into a journal of its own.

Its head holds the folder. A worker takes the lease of each group, reads what all journals say by then, and runs only
what is missing, so that a job that was put back into the queue goes on where it was.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console

from runners.records import Evidence, TrialRecord
from runners.specs import TrialSpec
from study import assigned, leases, processes, session
from study.applicability import evidence, without_launch
from study.batches import Batch, Group, load
from study.config import Condition
from study.design import alive_together
from study.errors import RequestError
from study.interrupts import interruptible
from study.journal import Journal, JournalTail
from study.progress import Progress
from study.starters import Starters
from study.tenancy import TenancySupervisor


@dataclass
class Announcer:
    """Runs trials as the supervisor does, once they are this worker's alone and it is on disk that they have begun.

    Trials that are alive together are leased as a group, before it is decided which of them to run; any other on its
    own.
    """

    supervisor: session.Runner
    journal: Journal
    tail: JournalTail
    folder: Path
    session_id: str
    learned: set[str] = field(default_factory=set)

    def run(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        """As `Supervisor.run`."""
        if alive_together(group[0]):
            self._begin(group, finished)
            return
        for spec in group:
            with leases.lease(self.folder, [spec.trial_id], self.session_id) as owners:
                # one look at an owner's journal may tell of further trials of this group
                self.learned.update(record.spec.trial_id for record in self.tail.read(owners))
                if spec.trial_id not in self.learned & self.tail.past.done():
                    self._begin([spec], finished)

    def _begin(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        self.journal.begin(group)
        self.supervisor.run(group, finished)


#: What makes the supervisor of a worker's trials.
Supervising = Callable[[Starters, Path, Progress], session.Runner]


def run(path: Path, supervising: Supervising = TenancySupervisor) -> None:
    """Run the batch in this file.

    Raises:
        RequestError: the batch was withdrawn, or the folder is not that of its study.
        StorageError: a record could not be written.
    """
    with _interruptible():
        try:
            with leases.presence(path):
                _run_batch(load(path), supervising)
        except FileNotFoundError as error:
            if error.filename != str(path):
                raise
            raise RequestError(f"{path.name} was withdrawn: its study was resumed otherwise, nothing was run") from None


def _run_batch(batch: Batch, supervising: Supervising) -> None:
    os.chdir(batch.working_folder)
    folder = Path(batch.folder)
    _refuse_another_study(batch, folder)
    assigned.take_over()
    _run_groups(batch, folder, supervising)


def _run_groups(batch: Batch, folder: Path, supervising: Supervising) -> None:
    """Whoever ran a trial before held its lease, or had ended before this sweep and is in the batch's own records."""
    tail = JournalTail(folder)
    tail.past.records.update(batch.records)
    identity, quiet = session.new_identity(batch.study, {"head": batch.head}), Console(quiet=True)
    current = session.Session(batch.design, batch.options, folder, quiet, identity)
    processes.become_subreaper()
    with (
        Journal(folder, identity) as journal,
        Progress(quiet, 0, []) as progress,
        Starters(folder) as starters,
    ):
        supervisor = supervising(starters, folder, progress)
        announcer = Announcer(supervisor, journal, tail, folder, identity.session_id)
        for group in batch.groups:
            if batch.until is not None and time.time() > batch.until:
                return
            with _claim(batch, group, identity.session_id) as owners, _alone(group):
                tail.read(owners)
                current.records = tail.past.records
                specs = _launchable(current, journal, progress, group)
                if specs:
                    session.run_group(current, announcer, journal, progress, specs)


def _claim(batch: Batch, group: Group, session_id: str) -> contextlib.AbstractContextManager[list[str]]:
    """The lease of a group that is alive together; the trials of any other are leased one by one."""
    if alive_together(group[0].spec(batch.design.seed, with_entry=False)):
        return leases.lease(Path(batch.folder), batch.ids(group), session_id)
    return contextlib.nullcontext([])


def _launchable(current: session.Session, journal: Journal, progress: Progress, group: Group) -> list[TrialSpec]:
    """The group's trials that can run on this machine; the others get their records at once."""
    specs = []
    for one in group:
        condition = _here(one.condition)
        outcome = without_launch(condition)
        planned = replace(one, condition=condition)
        spec = planned.spec(current.design.seed, with_entry=outcome is None)
        if outcome is None:
            specs.append(spec)
        elif not session.is_done(current, spec):
            session.acknowledge(current, journal, progress, session.unlaunched(spec, outcome))
    return specs


def _here(condition: Condition) -> Condition:
    """The condition with the numbers of this machine's cores; its id has only how many."""
    count = condition.settings.get("device.cpus")
    if not isinstance(count, int):
        return condition
    present = tuple(sorted(os.sched_getaffinity(0)))
    if len(present) < count:
        raise RequestError(f"device.cpus={count} is more than the {len(present)} cores that this job was given")
    return replace(condition, device=replace(condition.device, cpus=present[:count]))


def _alone(group: Group) -> contextlib.AbstractContextManager[None]:
    """On the CPU the device is the whole machine; the scheduler keeps the others apart."""
    measured = any(one.condition.device.kind == "cpu" and evidence(one.condition) is Evidence.MEASURED for one in group)
    return leases.whole_processor() if measured else contextlib.nullcontext()


def _refuse_another_study(batch: Batch, folder: Path) -> None:
    """The head's own journal stands in the folder, or it is another folder on this machine."""
    path = folder / "journal" / f"{batch.head}.jsonl"
    if not path.is_file():
        raise RequestError(
            f"{folder} on this machine does not hold the study that this job belongs to ({path.name} is not there); "
            "the study's folder must lie on a file system that all nodes share"
        )


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Signals as exceptions where Python allows that: in a process's first thread."""
    if threading.current_thread() is threading.main_thread():
        with interruptible():
            yield
    else:
        yield
