"""One session of a study: the blocks of a design, trial by trial, into one folder.

The order of things is the promise: lock the folder, write the manifest, then launch; a trial is acknowledged once its
record is on disk; whatever ends the session, what was finished stays and the rest can be resumed.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
import re
import secrets
import shlex
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from rich.console import Console

from runners.records import ANSWERS, Evidence, Outcome, OutcomeKind, SessionRecord, TrialRecord
from runners.specs import TrialSpec
from study import batches, compiling, compose, manifest, processes, record_table, search
from study.caution import caution
from study.config import Condition, StudyOptions
from study.design import Design, alive_together
from study.errors import EXIT_FINDINGS, EXIT_OK, RequestError
from study.journal import FolderLock, Journal, Past, read_past
from study.progress import Progress
from study.provenance import each_text, provenance, provenance_hash, scrub_folders, scrubbed
from study.starters import Starters
from study.stopping import precise_enough
from study.tenancy import TenancySupervisor

OUTPUTS = Path("outputs")


class Runner(Protocol):
    """Runs a group of trials to its end: `Supervisor`, or what a worker puts around it."""

    def run(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        """`finished` gets every record as soon as its trial has ended."""


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
    started: float = field(default_factory=time.monotonic)


def run(design: Design, options: StudyOptions, console: Console) -> int:
    """Run a design to its end, then its analysis. Returns the exit status.

    Raises:
        RequestError: the folder is held by another study or cannot be made.
        StorageError: a record could not be written.
        Interrupted: a signal; everything finished is on disk, and the folder is said.
    """
    folder = study_folder(design, options)
    lock = FolderLock(folder)
    try:
        batches.withdraw(folder, wait_for_none=True)
        session = open_session(design, options, folder, console)
        caution(design, console)
        _run_blocks(session)
    except KeyboardInterrupt:
        resume = f"the same command with {resumed_by(options, folder)} runs the rest"
        console.print(f"stopped; every finished trial is kept, {resume}", markup=False, highlight=False, soft_wrap=True)
        raise
    finally:
        lock.release()
    return conclude(session)


def study_folder(design: Design, options: StudyOptions) -> Path:
    """outputs/NAME, or the folder that is resumed. Raises `RequestError` where there is nothing to resume."""
    if options.theme is not None and options.name is not None:
        return OUTPUTS / options.name / options.theme
    if options.resume is None and options.name is None:
        return OUTPUTS / dated_name(design.conditions[0].workload.name)
    folder = OUTPUTS / str(options.name) if options.resume is None else Path(options.resume)
    if (folder / manifest.THEMES).exists():
        raise RequestError(f"{folder} holds the themes of another study; give this one another study.name")
    if options.resume is not None and not (folder / "journal").is_dir():
        raise RequestError(f"study.resume={options.resume} holds no journal/; give the folder of an earlier study")
    return folder


def dated_name(about: str) -> str:
    """A new name under outputs/ for a study that was given none."""
    return f"{dt.datetime.now():%Y-%m-%d_%H%M%S}_{about}_{secrets.token_hex(2)}"


def resumed_by(options: StudyOptions, folder: Path) -> str:
    """The argument that has the rest run, ready to be pasted: the folder, or that of all themes for one of them."""
    target = str(folder if options.theme is None else folder.parent)
    plain = re.fullmatch(r"[A-Za-z0-9_./-]+", target) is not None
    return f"study.resume={target}" if plain else shlex.quote(f"study.resume={compose.quoted(target)}")


def open_session(design: Design, options: StudyOptions, folder: Path, console: Console) -> Session:
    """Read what is there, say what that means, and write the manifest."""
    past = read_past(folder)
    _refuse_another_study(design, past, folder)
    identity = new_identity(folder.resolve().name, each_text(design.plain(), scrub_folders))
    manifest.write(folder, identity)
    _say_past(past, identity, console)
    started = time.monotonic() if options.began_seconds is None else options.began_seconds
    return Session(design, options, folder, console, identity, dict(past.records), started=started)


def new_identity(study: str, design: dict[str, Any]) -> SessionRecord:
    """Who writes a journal from now on: this process, on this machine, with these versions."""
    facts, now = provenance(), dt.datetime.now(dt.UTC)
    return SessionRecord(
        session_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        study=study,
        started_utc=now.isoformat(timespec="seconds"),
        provenance=facts,
        provenance_hash=provenance_hash(facts),
        design=design,
    )


def _refuse_another_study(design: Design, past: Past, folder: Path) -> None:
    """One folder, one question: another seed, primary factor or set of conditions is another study."""
    if not past.sessions:
        return
    earlier, now = past.design(), design.plain(with_order=False)
    for key, setting in (("seed", "study.seed"), ("primary", "study.primary"), ("factors", "the factors")):
        if key in earlier and json.dumps(earlier[key]) != json.dumps(now[key]):
            raise RequestError(
                f"{folder} holds another study: {setting} was {earlier[key]} there and is {now[key]} here. "
                "Give this one another study.name, or repeat the earlier command to resume that one"
            )


def _say_past(past: Past, identity: SessionRecord, console: Console) -> None:
    for line in past.bad_lines:
        console.print(f"journal: left out {line}"[:300], style="yellow", markup=False, highlight=False)
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
    varying = design.telling()
    if session.options.search is not None and f"workload.{session.options.search}" not in varying:
        varying.append(f"workload.{session.options.search}")
    total = design.trial_count(design.blocks) + len(design.unlaunched)
    with (
        Journal(session.folder, session.identity) as journal,
        Progress(session.console, total, varying) as progress,
        Starters(session.folder) as starters,
    ):
        supervisor = TenancySupervisor(starters, session.folder, progress)
        for spec, outcome in design.unlaunched_trials():
            if not is_done(session, spec):
                acknowledge(session, journal, progress, unlaunched(spec, outcome))
        for block in _blocks(session, progress):
            for group in compiled_together(design.block(block)):
                if out_of_time(session):
                    return
                run_group(session, supervisor, journal, progress, group)
        if session.options.search is not None:
            _run_searches(session, supervisor, journal, progress)


def _blocks(session: Session, progress: Progress) -> Iterator[int]:
    """Block numbers: the design's, then further ones while the precision asked for is not reached."""
    design = session.design
    yield from range(design.blocks)
    for block in further_blocks(session):
        progress.extend(design.trial_count(block + 1) + len(design.unlaunched))
        yield block


def further_blocks(session: Session) -> Iterator[int]:
    """The blocks beyond the design's number, one by one while the precision asked for is not reached."""
    design = session.design
    if design.half_width is None or sum(map(len, design.groups())) < 2:
        return
    for block in range(design.blocks, design.most_blocks):
        if precise_enough(design, session.records.values(), design.half_width):
            return
        yield block


def compiled_together(groups: list[list[TrialSpec]]) -> list[list[TrialSpec]]:
    """The groups of a block, with all compilations as one group at its head: a compiler may run beside another."""
    compiled = [spec for group in groups for spec in group if spec.evidence == Evidence.COMPILED]
    measured = [[spec for spec in group if spec.evidence != Evidence.COMPILED] for group in groups]
    return [group for group in [compiled, *measured] if group]


def run_group(
    session: Session, supervisor: Runner, journal: Journal, progress: Progress, group: list[TrialSpec]
) -> None:
    missing = [spec for spec in group if not is_done(session, spec)]
    shared = group[0].tenancy is not None
    if missing and (shared or any(_is_foreign(session, spec) for spec in group)):
        # its finished part ran under other versions or on another machine, or in a company that is gone: only a whole
        # group can be compared
        missing = group
    for _ in group[len(missing) :]:
        progress.already_done()
    for part in filter(None, _parts(missing)):
        if out_of_time(session):
            return
        supervisor.run(part, lambda record: acknowledge(session, journal, progress, record))


def _parts(specs: list[TrialSpec]) -> list[list[TrialSpec]]:
    """What is alive at the same time: a company, trials that take turns, so many compilers; else one after another."""
    if not specs:
        return []
    if specs[0].evidence == Evidence.COMPILED:
        many = compiling.at_once()
        return [specs[start : start + many] for start in range(0, len(specs), many)]
    return [specs] if alive_together(specs[0]) else [[spec] for spec in specs]


def _run_searches(session: Session, supervisor: TenancySupervisor, journal: Journal, progress: Progress) -> None:
    """The largest batch of every condition, probe by probe; a probe that is on record is not run again."""

    def try_one(condition: Condition, batch_size: int) -> TrialRecord | None:
        spec = search.probe_of(condition, batch_size, session.design.seed)
        known = is_done(session, spec) and not _is_foreign(session, spec)
        if not known and not out_of_time(session):
            progress.extend_by(1)
            supervisor.run([spec], lambda record: acknowledge(session, journal, progress, record))
            known = True
        return session.records.get(spec.trial_id) if known else None

    for group in session.design.groups():
        for condition in group:
            found = search.run(condition, functools.partial(try_one, condition))
            progress.say(search.sentence(condition, found))


def is_done(session: Session, spec: TrialSpec) -> bool:
    """Failed trials are run again; answers (ok, oom, not applicable) are kept."""
    record = session.records.get(spec.trial_id)
    return record is not None and record.outcome.kind in ANSWERS


def _is_foreign(session: Session, spec: TrialSpec) -> bool:
    record = session.records.get(spec.trial_id)
    return record is not None and record.provenance_hash != session.identity.provenance_hash


def acknowledge(session: Session, journal: Journal, progress: Progress, record: TrialRecord) -> None:
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


def unlaunched(spec: TrialSpec, outcome: Outcome) -> TrialRecord:
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    return TrialRecord(spec=spec, outcome=outcome, start="not launched", started_utc=now)


def out_of_time(session: Session) -> bool:
    limit = session.options.max_seconds
    if limit is not None and not session.stopped and time.monotonic() - session.started > limit:
        resume = resumed_by(session.options, session.folder)
        session.stopped = f"stopped after study.max_seconds={limit:g}; {resume} runs the rest"
    return bool(session.stopped)


def conclude(session: Session) -> int:
    """Show the result, analysed in a process of its own (the parent holds no pandas), and settle the exit status."""
    if session.stopped:
        session.console.print(session.stopped, markup=False, highlight=False)
    own = [record for trial_id in _own_trials(session.design) if (record := session.records.get(trial_id))]
    single = len(own) == 1
    if single:
        record_table.show(own[0], session.console)
    quiet = single or session.options.theme is not None
    matched = _analyse(session, quiet) if session.options.report else True
    answers = ANSWERS if session.options.theme is None else ANSWERS | {OutcomeKind.UNAVAILABLE}
    failed = [record for record in own if record.outcome.kind not in answers]
    return EXIT_OK if matched and not failed and not session.stopped else EXIT_FINDINGS


def _analyse(session: Session, quiet: bool) -> bool:
    """Run `python -m analysis` on the folder; whether every pair matched and the report is there."""
    command = [sys.executable, "-P", "-m", "analysis", str(session.folder), *(["--quiet"] if quiet else [])]
    process = subprocess.Popen(command)
    try:
        status = process.wait()
    except BaseException:
        process.kill()
        process.wait()
        raise
    report = session.folder / "report.html"
    if status not in (0, 1) or not report.exists():
        text = f"the analysis failed (exit status {status}); the trials are kept: python -m analysis {session.folder}"
        session.console.print(text, style="yellow", markup=False, highlight=False, soft_wrap=True)
        return False
    if quiet:
        session.console.print(f"report: {report}", markup=False, highlight=False, soft_wrap=True)
    return status == 0


def _own_trials(design: Design) -> list[str]:
    """The ids of every trial that this design may have run."""
    launched = [one for block in range(design.most_blocks) for one in design.ids(block)]
    return launched + [spec.trial_id for spec, _ in design.unlaunched_trials()]
