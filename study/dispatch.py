"""The head of a study on other machines: it cuts the blocks into batches, has a launcher run them, and keeps count.

The head holds the folder and writes the manifest. What a trial is acknowledged by is a line in the journal of the
worker that ran it; the head only reads those, once a second, and in the end writes down which workers were lost.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from runners.records import Outcome, OutcomeKind, Phase, TrialRecord
from runners.specs import TrialSpec
from study import batches, leases, queues, session
from study.batches import Batch, Group
from study.config import StudyOptions
from study.design import Design, alive_together
from study.errors import StorageError
from study.journal import FolderLock, Journal, JournalTail
from study.progress import Progress

#: Takes the files of the batches and the jobs' common name; returns what each worker said ("" where all was well).
Launch = Callable[[list[Path], str], list[Any]]

LOOK_SECONDS = 1.0
#: So long nobody may be at work before jobs that never began are given up, where no queue can be asked.
QUIET_SECONDS = 30.0


@dataclass
class Head:
    """One head at work: the open session, and the trials that are still waited for."""

    current: session.Session
    journal: Journal
    progress: Progress
    tail: JournalTail
    launch: Launch
    missing: set[str] = field(default_factory=set)

    @property
    def jobs_name(self) -> str:
        """What a scheduler calls the jobs of this sweep."""
        return f"study-{self.current.identity.session_id}"


def run(design: Design, options: StudyOptions, launch: Launch, console: Console) -> int:
    """Run a design on other machines to its end, then its analysis. Returns the exit status.

    Raises:
        RequestError: the folder is held by another study or cannot be made.
        StorageError: a record could not be written.
        Interrupted: a signal; everything finished is on disk, and the folder is said.
    """
    folder = session.study_folder(design, options)
    lock = FolderLock(folder)
    try:
        current = session.open_session(design, options, folder, console)
        running = batches.withdraw(folder)
        if running:
            console.print(f"{len(running)} workers of an earlier sweep are still at work here; both go on side by side")
        _run_rounds(current, launch)
    except KeyboardInterrupt:
        resume = session.resumed_by(options, folder)
        text = f"stopped watching; every finished trial is kept, the same command with {resume} runs the rest. "
        text += "Jobs that run already go on: end them by the scheduler's own command"
        console.print(text, markup=False, highlight=False, soft_wrap=True)
        raise
    finally:
        batches.withdraw(folder)
        lock.release()
    return session.conclude(current)


def _run_rounds(current: session.Session, launch: Launch) -> None:
    """The design's blocks at once, then one block after another while the precision asked for is not reached."""
    design = current.design
    varying = design.telling()
    with (
        Journal(current.folder, current.identity) as journal,
        Progress(current.console, 0, varying) as progress,
    ):
        tail = JournalTail(current.folder)
        tail.refresh()
        current.records = tail.past.records
        head = Head(current, journal, progress, tail, launch)
        _record_lost(head)
        for spec, outcome in design.unlaunched_trials():
            if not session.is_done(current, spec):
                progress.extend_by(1)
                session.acknowledge(current, journal, progress, session.unlaunched(spec, outcome))
        for blocks in _rounds(current):
            if session.out_of_time(current):
                return
            _run_round(head, blocks)


def _rounds(current: session.Session) -> Iterator[Iterable[int]]:
    yield range(current.design.blocks)
    for block in session.further_blocks(current):
        if current.stopped:
            return
        yield [block]


def _run_round(head: Head, blocks: Iterable[int]) -> None:
    """Launch what is missing of these blocks; returns once no worker can be at work on it any more."""
    current = head.current
    cut = batches.cut(current.design, current.options, blocks, lambda spec: session.is_done(current, spec))
    if not cut:
        return
    made = [_batch(current, groups) for groups in cut]
    expected = {trial_id for one in made for group in one.groups for trial_id in one.ids(group)}
    head.missing = expected - head.tail.past.done()
    head.progress.extend_by(len(head.missing))
    files = [batches.save(one, f"{current.identity.session_id}-{place}") for place, one in enumerate(made)]
    with Watch(head):
        trouble = _launch(head, files)
        if trouble:
            _wait_for_workers(head, files)
    _count(head)
    _record_lost(head)
    if head.missing:
        _say_missing(head, trouble)


def _batch(current: session.Session, groups: tuple[Group, ...]) -> Batch:
    limit = current.options.max_seconds
    left = None if limit is None else limit - (time.monotonic() - current.started)
    ids = [one.spec(current.design.seed).trial_id for group in groups for one in group]
    records = {trial_id: current.records[trial_id] for trial_id in ids if trial_id in current.records}
    return Batch(
        head=current.identity.session_id,
        study=current.identity.study,
        folder=str(current.folder.resolve()),
        working_folder=str(Path.cwd()),
        design=batches.only(current.design, groups),
        options=current.options,
        groups=groups,
        records=records,
        until=None if left is None else time.time() + left,
    )


def _launch(head: Head, files: list[Path]) -> str:
    """What went wrong, in a sentence; "" where every worker came to its end."""
    try:
        said = head.launch(files, head.jobs_name)
    except Exception as error:  # whatever a launcher raises when a job is lost: its kinds differ, and the rest goes on
        return f"the launcher lost a job: {str(error).strip() or type(error).__name__}"
    return "\n".join(dict.fromkeys(str(one) for one in said if one))


def _wait_for_workers(head: Head, files: list[Path]) -> None:
    """A launcher that lost one job says no more of the others: wait for those that are at work or in its queue."""
    quiet = 0.0
    while head.missing and quiet < QUIET_SECONDS:
        if any(leases.is_present(path) for path in files if path.exists()):
            quiet = 0.0
        elif (waiting := queues.jobs(head.jobs_name)) is not None:
            if waiting == 0:
                return
        elif _begun_workers(head) >= len(files):
            return
        else:
            quiet += LOOK_SECONDS
        time.sleep(LOOK_SECONDS)


def _begun_workers(head: Head) -> int:
    """How many workers of this head have opened their journals."""
    own = head.current.identity.session_id
    return sum((one.get("design") or {}).get("head") == own for one in head.tail.past.sessions)


class Watch:
    """While this lasts, a thread reads the journals once a second and moves the progress line.

    The head measures nothing, so its thread takes time from no measurement.
    """

    def __init__(self, head: Head) -> None:
        self._head, self._end = head, threading.Event()
        self._trouble: OSError | None = None
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        if self._trouble is not None:
            raise StorageError(f"the journals could not be read: {self._trouble}") from self._trouble

    def _look(self) -> None:
        try:
            while not self._end.wait(LOOK_SECONDS):
                _count(self._head)
        except OSError as error:
            self._trouble = error


def _count(head: Head) -> None:
    """Take in what workers have written since the last look."""
    for record in head.tail.refresh():
        if record.spec.trial_id in head.missing:
            head.missing.discard(record.spec.trial_id)
            head.progress.finished(record)
    head.progress.tick()


def _record_lost(head: Head) -> None:
    """A record for every trial that was begun by a worker that is gone, and has no answer yet.

    A worker writes its record before it lets go of the lease: the journals are read again once the leases are free.
    """
    current, past = head.current, head.tail.past
    leased_with = _leased_with(current.design) if set(past.begun) - past.ended else {}
    free = {
        key: when
        for key, when in past.begun.items()
        if key not in past.ended
        and key[1] in leased_with
        and not leases.is_held(current.folder, [one.trial_id for one in leased_with[key[1]]])
    }
    _count(head)
    done = past.done()
    for (session_id, trial_id), when in free.items():
        if (session_id, trial_id) in past.ended or trial_id in done:
            continue
        spec = next(one for one in leased_with[trial_id] if one.trial_id == trial_id)
        record = _lost(spec, session_id, when, _provenance_of(past.sessions, session_id))
        head.journal.append(record)
        if trial_id not in head.missing:
            head.progress.extend_by(1)
        head.missing.discard(trial_id)
        head.progress.finished(record)
    head.tail.refresh()


def _lost(spec: TrialSpec, session_id: str, when: str, provenance_hash: str) -> TrialRecord:
    """In the worker's place, under its session: nobody knows how far the trial came."""
    text = f"the worker of session {session_id} began this trial and ended without a record of it"
    outcome = Outcome(OutcomeKind.CRASH, Phase.LAUNCH, "worker lost", text)
    return TrialRecord(
        spec=spec, outcome=outcome, session_id=session_id, provenance_hash=provenance_hash, started_utc=when
    )


def _leased_with(design: Design) -> dict[str, list[TrialSpec]]:
    """Trial id → the trials under the same lease: those that are alive together with it."""
    groups = (group for block in range(design.most_blocks) for group in design.block(block))
    return {spec.trial_id: group if alive_together(spec) else [spec] for group in groups for spec in group}


def _provenance_of(sessions: list[dict[str, Any]], session_id: str) -> str:
    return next((str(one.get("provenance_hash")) for one in sessions if one.get("session_id") == session_id), "")


def _say_missing(head: Head, trouble: str) -> None:
    current = head.current
    session.out_of_time(current)
    reason = current.stopped or trouble or "their jobs ended before them"
    resume = session.resumed_by(current.options, current.folder)
    current.stopped = f"{len(head.missing)} trials have no record ({reason}); {resume} runs them"
