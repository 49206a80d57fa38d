"""One session of a study: the blocks of a design, trial by trial, into one folder.

The order of things is the promise: lock the folder, write the manifest, then launch; a trial is acknowledged once its
record is on disk; whatever ends the session, what was finished stays and the rest can be resumed.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType

from rich.console import Console

from runners.records import ANSWERS, Outcome, SessionRecord, TrialRecord, TrialSpec
from study import manifest, processes, record_table, search
from study.config import Condition, StudyOptions
from study.design import Design, trial
from study.errors import EXIT_FINDINGS, EXIT_INTERRUPTED, EXIT_OK, RequestError
from study.journal import FolderLock, Journal, Past, read_past
from study.progress import Progress
from study.provenance import each_text, provenance, provenance_hash, scrub_folders, scrubbed
from study.starters import Starters
from study.stopping import precise_enough
from study.supervise import Supervisor

OUTPUTS = Path("outputs")


class Interrupted(KeyboardInterrupt):
    """SIGINT or SIGTERM reached the study."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = EXIT_INTERRUPTED if number == signal.SIGINT else 128 + number


@dataclass
class Session:
    """What a session works with. `records` holds every kept record of the folder, earlier sessions' included."""

    design: Design
    options: StudyOptions
    folder: Path
    console: Console
    identity: SessionRecord
    records: dict[str, TrialRecord] = field(default_factory=dict)
    stopped: str = ""


def run(design: Design, options: StudyOptions, console: Console) -> int:
    """Run a design to its end, then its analysis. Returns the exit status.

    Raises:
        RequestError: the folder is held by another study or cannot be made.
        StorageError: a record could not be written.
        Interrupted: SIGINT or SIGTERM; everything finished is on disk.
    """
    folder = study_folder(design, options)
    lock = FolderLock(folder)
    try:
        session = _open(design, options, folder, console)
        with _interruptible():
            _run_blocks(session)
    finally:
        lock.release()
    return _conclude(session)


def study_folder(design: Design, options: StudyOptions) -> Path:
    """outputs/NAME, or the folder that is resumed. Raises `RequestError` where there is nothing to resume."""
    if options.resume is not None:
        folder = Path(options.resume)
        if not (folder / "journal").is_dir():
            raise RequestError(f"study.resume={options.resume} holds no journal/; give the folder of an earlier study")
        return folder
    if options.name is not None:
        return OUTPUTS / options.name
    now = dt.datetime.now().strftime("%Y-%m-%d_%H%M%S")
    return OUTPUTS / f"{now}_{design.conditions[0].workload.name}_{secrets.token_hex(2)}"


def _open(design: Design, options: StudyOptions, folder: Path, console: Console) -> Session:
    """Read what is there, say what that means, and write the manifest."""
    past = read_past(folder)
    facts = provenance()
    identity = SessionRecord(
        session_id=f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        study=folder.name,
        started_utc=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        provenance=facts,
        provenance_hash=provenance_hash(facts),
        design=each_text(design.plain(), scrub_folders),
    )
    manifest.write(folder, identity)
    _say_past(past, identity, console)
    return Session(design, options, folder, console, identity, dict(past.records))


def _say_past(past: Past, identity: SessionRecord, console: Console) -> None:
    for line in past.bad_lines:
        console.print(f"[yellow]journal: left out {line}[/]", highlight=False)
    if past.records:
        done = sum(record.outcome.kind in ANSWERS for record in past.records.values())
        console.print(f"{done} finished trials are there already; only what is missing or failed is run")
    if past.sessions and past.sessions[-1].get("provenance_hash") != identity.provenance_hash:
        console.print(
            "[yellow]versions, machine or code differ from the earlier session of this study: "
            "the new trials are marked, and never pooled with the earlier ones[/]"
        )


def _run_blocks(session: Session) -> None:
    """Block after block, until the design's number or its precision is reached."""
    design = session.design
    processes.become_subreaper()
    varying = [key for key in design.factors if key not in ("framework", "compile")]
    if session.options.search is not None and f"workload.{session.options.search}" not in varying:
        varying.append(f"workload.{session.options.search}")
    total = design.trial_count(design.blocks) + len(design.unlaunched)
    with (
        Journal(session.folder, session.identity) as journal,
        Progress(session.console, total, varying) as progress,
        Starters(session.folder) as starters,
    ):
        supervisor = Supervisor(starters, session.folder, progress)
        for spec, outcome in design.unlaunched_trials():
            if not _is_done(session, spec):
                _acknowledge(session, journal, progress, _unlaunched(spec, outcome))
        for block in _blocks(session, progress):
            for group in design.block(block):
                if _out_of_time(session):
                    return
                _run_group(session, supervisor, journal, progress, group)
        if session.options.search is not None:
            _run_searches(session, supervisor, journal, progress)


def _blocks(session: Session, progress: Progress) -> Iterator[int]:
    """Block numbers: the design's, then further ones while the precision asked for is not reached."""
    design = session.design
    size = sum(len(group) for group in design.groups())
    yield from range(design.blocks)
    if design.half_width is None or size < 2:
        return
    for block in range(design.blocks, design.most_blocks):
        if precise_enough(design, session.records.values(), design.half_width):
            return
        progress.extend(design.trial_count(block + 1) + len(design.unlaunched))
        yield block


def _run_group(
    session: Session, supervisor: Supervisor, journal: Journal, progress: Progress, group: list[TrialSpec]
) -> None:
    missing = [spec for spec in group if not _is_done(session, spec)]
    for _ in group[len(missing) :]:
        progress.already_done()
    together = [missing] if group[0].protocol.interleave else [[spec] for spec in missing]
    for part in filter(None, together):
        supervisor.run(part, lambda record: _acknowledge(session, journal, progress, record))


def _run_searches(session: Session, supervisor: Supervisor, journal: Journal, progress: Progress) -> None:
    """The largest batch of every condition, probe by probe; a probe that is on record is not run again."""

    def try_one(condition: Condition) -> TrialRecord | None:
        spec = trial(condition, 0, 0, session.design.seed)
        if not _is_done(session, spec) and not _out_of_time(session):
            progress.extend_by(1)
            _run_group(session, supervisor, journal, progress, [spec])
        return session.records.get(spec.trial_id)

    for group in session.design.groups():
        for condition in group:
            found = search.run(condition, try_one)
            progress.say(search.sentence(condition, found))


def _is_done(session: Session, spec: TrialSpec) -> bool:
    """Failed trials are run again; answers (ok, oom, not applicable) are kept."""
    record = session.records.get(spec.trial_id)
    return record is not None and record.outcome.kind in ANSWERS


def _acknowledge(session: Session, journal: Journal, progress: Progress, record: TrialRecord) -> None:
    """Complete a record, put it on disk, and only then count it."""
    record = scrubbed(record)
    record = replace(
        record,
        session_id=session.identity.session_id,
        provenance_hash=session.identity.provenance_hash,
        outcome=replace(record.outcome, text=record.outcome.text[:8000]),
    )
    journal.append(record)
    session.records[record.spec.trial_id] = record
    progress.finished(record)


def _unlaunched(spec: TrialSpec, outcome: Outcome) -> TrialRecord:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return TrialRecord(spec=spec, outcome=outcome, start="not launched", started_utc=now)


def _out_of_time(session: Session) -> bool:
    limit = session.options.max_seconds
    if limit is not None and not session.stopped and time.monotonic() - _STARTED > limit:
        session.stopped = f"stopped after study.max_seconds={limit:g}; study.resume={session.folder} runs the rest"
    return bool(session.stopped)


def _conclude(session: Session) -> int:
    """Show the result, analysed in a process of its own (the parent holds no pandas), and settle the exit status."""
    if session.stopped:
        session.console.print(session.stopped, markup=False, highlight=False)
    own = [record for trial_id in _own_trials(session.design) if (record := session.records.get(trial_id))]
    single = len(own) == 1
    if single:
        record_table.show(own[0], session.console)
    matched = _analyse(session, quiet=single) if session.options.report else True
    failed = [record for record in own if record.outcome.kind not in ANSWERS]
    return EXIT_OK if matched and not failed else EXIT_FINDINGS


def _analyse(session: Session, quiet: bool) -> bool:
    """Run `python -m analysis` on the folder; whether every pair matched."""
    command = [sys.executable, "-P", "-m", "analysis", str(session.folder), *(["--quiet"] if quiet else [])]
    finished = subprocess.run(command, check=False)
    if quiet:
        session.console.print(f"report: {session.folder}/report.html", markup=False, highlight=False)
    return finished.returncode == 0


def _own_trials(design: Design) -> list[str]:
    """The ids of every trial that this design may have run."""
    launched = [spec for block in range(design.most_blocks) for group in design.block(block) for spec in group]
    return [spec.trial_id for spec in launched] + [spec.trial_id for spec, _ in design.unlaunched_trials()]


_STARTED = time.monotonic()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Turn the first SIGINT or SIGTERM into `Interrupted`; further ones wait until the trees have been ended."""

    def strike(number: int, _: FrameType | None) -> None:
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, strike) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
