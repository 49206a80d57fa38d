"""Running the trials of a group: starting, deadlines, turns, ending, and one record for each.

One trial = one process tree. The parent sleeps in `select` until an event, an exit or a deadline; it never polls.
Of a group that interleaves, one trial at a time is at work: each runs alone until its first window, then all take turns
window by window, in an order shuffled for every round.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import os
import random
import select
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from runners.lines import RecordError, decode_line, encode_line, plan_from_dict, report_from_dict
from runners.records import Barrier, Outcome, OutcomeKind, Phase, Plan, TrialRecord, TrialReport
from runners.specs import TrialSpec
from study import processes
from study.classify import Ending, classify
from study.launch import ChildEnds, Pipes, child_ends, interpreter, scrubbed
from study.processes import Process, Tree

STDERR_TAIL_BYTES = 16_384
#: While a trial measures nothing the parent may wake for its progress line.
TICK_SECONDS = 1.0


class Starter(Protocol):
    """Brings trials to life (`study.starters.Starters`)."""

    ways: dict[str, str]
    warnings: dict[str, str]

    def start(self, spec: TrialSpec, ends: ChildEnds) -> Process:
        """The trial's process. Raises `OSError` where there can be none."""

    def pids(self) -> set[int]:
        """Processes that belong to no trial."""


class Watcher(Protocol):
    """Who is told what happens, for the progress line."""

    def phase(self, spec: TrialSpec, phase: Phase) -> None:
        """A trial has entered a phase."""

    def tick(self) -> None:
        """About a second has passed outside a measured window."""


@dataclass
class Live:
    """A trial that is running: its process, its pipes, and what it has told so far.

    `barriers` are those that a tenant has reached; `waits` says that it has not been let go from the last.
    """

    spec: TrialSpec
    process: Process
    pipes: Pipes
    logs: Path
    phase: Phase = Phase.LAUNCH
    started: float = field(default_factory=time.monotonic)
    started_utc: str = field(default_factory=lambda: _now())
    oom_kills_before: int | None = field(default_factory=lambda: oom_kills())
    used_seconds: dict[str, float] = field(default_factory=dict)
    buffer: bytes = b""
    report: TrialReport = field(default_factory=TrialReport)
    plan: Plan | None = None
    failure: dict[str, Any] | None = None
    wants_turn: bool = False
    done: bool = False
    phase_starts: dict[str, float] = field(default_factory=dict)
    strays: set[int] = field(default_factory=set)
    barriers: list[Barrier] = field(default_factory=list)
    waits: bool = False
    expired: str | None = None
    protocol_error: str | None = None

    def tree(self) -> Tree:
        """What its processes can be known by."""
        return Tree(self.spec.trial_id, self.process.pid, self.pipes.inode, frozenset(self.strays))


class Supervisor:
    """Runs groups of trials. `finished` gets every record as soon as its trial has ended."""

    def __init__(self, starter: Starter, folder: Path, watcher: Watcher) -> None:
        self._starter, self._logs, self._watcher = starter, folder / "logs", watcher
        self._logs.mkdir(parents=True, exist_ok=True)
        self._before = processes.present()
        self.live: list[Live] = []

    def run(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        """Run a group to its end.

        Whatever interrupts (an exception, Ctrl-C), no process of the group survives; trials that had not ended leave no
        record, and are run again on resume.
        """
        try:
            self._bring_through(group, finished)
        finally:
            for live in self.live:
                end_tree(live)
            self.live.clear()
            processes.end_orphans(set(self._before) | self._starter.pids())

    def _bring_through(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        for spec in group:
            self._start_alone(spec, finished)
        self._take_turns(finished)

    def _start_alone(self, spec: TrialSpec, finished: Callable[[TrialRecord], None]) -> None:
        """Bring one trial to its first window, or to its end, while the others of its group wait."""
        try:
            live = self._launch(spec)
        except OSError as error:
            finished(not_started(spec, error))
            return
        self.live.append(live)
        self._drive(live)
        self._adopt(live)
        self._collect(finished)

    def _take_turns(self, finished: Callable[[TrialRecord], None]) -> None:
        chance = random.Random(":".join(live.spec.trial_id for live in self.live))
        while self.live:
            for live in chance.sample(self.live, len(self.live)):
                if live.wants_turn:
                    live.wants_turn = False
                    tell(live, b"go\n")
                self._drive(live)
                self._adopt(live)
            self._collect(finished)

    def _launch(self, spec: TrialSpec) -> Live:
        self._watcher.phase(spec, Phase.LAUNCH)
        with child_ends(spec, self._logs) as (ends, pipes):
            os.set_blocking(pipes.events, False)
            requested = time.monotonic()
            live = Live(spec, self._starter.start(spec, ends), pipes, self._logs, started=requested)
        tell(live, encode_line(spec).encode())
        return live

    def _drive(self, live: Live) -> None:
        """Let a trial work until it waits for its turn or its process has ended; end it at its deadline."""
        poll = select.poll()
        for handle in (live.pipes.events, live.process.pidfd):
            poll.register(handle, select.POLLIN)
        while not live.wants_turn and live.expired is None:
            before = time.monotonic()
            quiet = live.phase is Phase.MEASURE
            patience = remaining(live) if quiet else min(remaining(live), TICK_SECONDS)
            ready = dict(poll.poll(1000 * patience))
            # no more than was waited for: when we were stopped ourselves (Ctrl-Z), the trial was not late
            account(live, min(time.monotonic() - before, patience))
            if live.pipes.events in ready:
                open_end = self._read(live)
                if not open_end:
                    poll.unregister(live.pipes.events)
            if live.process.pidfd in ready:
                self._read(live)
                return
            if not quiet:
                self._watcher.tick()
            live.expired = None if ready else overdue(live)

    def _adopt(self, live: Live) -> None:
        """Whatever became our child while this trial alone was at work is this trial's."""
        live.strays |= self._adopted() - {pid for one in self.live for pid in one.strays}

    def _adopted(self) -> set[int]:
        """Our children that we did not start: left behind by trials."""
        return processes.children() - self._before - self._starter.pids() - {one.process.pid for one in self.live}

    def _read(self, live: Live) -> bool:
        """Take in what the trial has said; False once its end of the pipe is closed."""
        while True:
            try:
                chunk = os.read(live.pipes.events, 1 << 16)
            except BlockingIOError:
                return True
            if not chunk:
                return False
            *lines, live.buffer = (live.buffer + chunk).split(b"\n")
            for line in lines:
                self._take(live, line)

    def _take(self, live: Live, line: bytes) -> None:
        try:
            event = decode_line(line.decode(errors="replace"))
            match event.get("event"):
                case "phase":
                    live.phase = Phase(event["phase"])
                    live.phase_starts[live.phase.value] = float(event["at_seconds"])
                    self._watcher.phase(live.spec, live.phase)
                case "turn":
                    live.wants_turn = True
                case "ready":
                    live.barriers.append(Barrier(event["barrier"]))
                    live.waits = True
                    live.phase_starts[f"ready_{event['barrier']}"] = float(event["at_seconds"])
                case "report":
                    live.report = report_from_dict(event["report"])
                case "plan":
                    live.plan = plan_from_dict(event["plan"])
                case "failed":
                    Phase(event["failure"]["phase"] or live.phase)
                    live.failure = event["failure"]
                case "done":
                    live.done = True
                    live.phase_starts["done"] = float(event["at_seconds"])
                case other:
                    live.protocol_error = f"the trial sent an event of unknown kind {other!r}"
        except (RecordError, KeyError, ValueError) as error:
            live.protocol_error = f"the trial sent an event that cannot be read: {error}"

    def _collect(self, finished: Callable[[TrialRecord], None]) -> None:
        """Record the trials that have ended, and forget them."""
        for live in [one for one in self.live if not one.wants_turn]:
            leftovers = self._end_with_strays(live)
            self.live.remove(live)
            finished(self._record(live, leftovers))

    def _end_with_strays(self, live: Live) -> int:
        """End the trial's tree; again as long as that makes further processes ours, as an end of a parent does.

        Returns how many processes had outlived the first. Whatever outlives its parent has become ours (we are the
        subreaper) by the time that the end of the parent is seen: with no adopted child there is nothing to look for.
        """
        _end_first(live)
        self._adopt(live)
        leftovers, known = 0, -1
        while self._adopted() and len(live.strays) > known:
            known = len(live.strays)
            leftovers += processes.end_leftovers(live.tree())
            self._adopt(live)
        return leftovers

    def _record(self, live: Live, leftovers: int) -> TrialRecord:
        trial_id = live.spec.trial_id
        live.report.timings.phase_start_seconds = {Phase.LAUNCH.value: live.started, **live.phase_starts}
        warning = self._starter.warnings.get(trial_id)
        if warning is not None:
            live.report.warnings.append(warning)
        return TrialRecord(
            spec=live.spec,
            outcome=classify(_ending(live, leftovers)),
            report=live.report,
            plan=live.plan,
            start=self._starter.ways[trial_id],
            started_utc=live.started_utc,
            elapsed_seconds=time.monotonic() - live.started,
            scrubbed_environment=tuple(scrubbed()),
        )


def oom_kills() -> int | None:
    """How often the kernel's out-of-memory killer has struck since boot (/proc/vmstat), None where it does not tell."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return None


def tell(live: Live, message: bytes) -> None:
    # where the process has ended already, its exit is read from its pidfd
    with contextlib.suppress(BrokenPipeError):
        os.write(live.pipes.control, message)


def remaining(live: Live) -> float:
    """Seconds until the nearest deadline of the running phase or the whole trial."""
    limits = live.spec.protocol.deadline_seconds
    left = [limits[name] - live.used_seconds.get(name, 0.0) for name in (str(live.phase), "total") if name in limits]
    return max(0.0, min(left, default=3600.0))


def account(live: Live, seconds: float) -> None:
    """Book time at work to the phase it began in and to the total; time spent waiting for a turn is nobody's."""
    for name in (str(live.phase), "total"):
        live.used_seconds[name] = live.used_seconds.get(name, 0.0) + seconds


def overdue(live: Live) -> str | None:
    limits = live.spec.protocol.deadline_seconds
    for name in (str(live.phase), "total"):
        if name in limits and live.used_seconds.get(name, 0.0) >= limits[name]:
            return f"deadline of {limits[name]:g} s for {'the whole trial' if name == 'total' else f'the phase {name}'}"
    return None


def end_tree(live: Live) -> int:
    """End the process if it runs, and everything it left behind; returns how many processes had outlived it."""
    _end_first(live)
    return processes.end_leftovers(live.tree())


def _end_first(live: Live) -> None:
    """End the trial's first process, if it still runs, and take its exit status."""
    if live.process.ended_within(0):
        live.process.reap()
    else:
        processes.end(live.process, live.tree())
    live.pipes.close()


def not_started(spec: TrialSpec, error: OSError) -> TrialRecord:
    text = f"the interpreter {interpreter(spec)} could not be started: {error.strerror}"
    outcome = Outcome(OutcomeKind.CRASH, Phase.LAUNCH, "not started", text)
    return TrialRecord(spec=spec, outcome=outcome, started_utc=_now())


def _ending(live: Live, leftovers: int) -> Ending:
    kills, before = oom_kills(), live.oom_kills_before
    return Ending(
        phase=live.phase,
        exit_code=live.process.exit_code,
        signal=live.process.signal,
        done=live.done,
        failure=live.failure,
        expired=live.expired,
        stderr_tail=_tail(live.logs / f"{live.spec.trial_id}.err"),
        oom_kills=None if kills is None or before is None else kills - before,
        leftovers=leftovers,
        protocol_error=live.protocol_error,
    )


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(0, file.tell() - STDERR_TAIL_BYTES))
        return file.read().decode(errors="replace")
