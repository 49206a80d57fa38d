"""The child's two pipes: events go out on one, the spec and the turns come in on the other.

Each event is one checksummed line (`lines.encode_line`) and leaves in one write, so that a child that dies keeps
everything it had finished. stdout and stderr carry no events: they are the log files of whatever the framework prints.
"""

from __future__ import annotations

import dataclasses
import os
import select
import time
import traceback
from typing import Any, NoReturn

from runners import lines
from runners.faults import TrialFault
from runners.records import Barrier, Phase, Plan, TrialReport
from runners.specs import TrialSpec

#: Longest error text and traceback in a `failed` event, in characters: an OOM text can hold a whole allocator dump.
TEXT_LIMIT = 4000


class Channel:
    """Events to the parent and turns from it; knows the current phase and when each phase began.

    When the parent is gone (end of file, broken pipe) the process ends at once: there is nobody to report to, and a
    device must not stay occupied.
    """

    def __init__(self, events_fd: int, control_fd: int) -> None:
        self._events_fd = events_fd
        self._control_fd = control_fd
        self._pending = b""
        self.current_phase: Phase | None = None
        self.phase_start_seconds: dict[str, float] = {}

    def receive_spec(self) -> TrialSpec:
        """The trial asked for: the first control line. Raises `RecordError` where it is damaged or no spec."""
        return lines.spec_from_dict(lines.decode_line(self._read_line()))

    def phase(self, phase: Phase) -> None:
        """Say that `phase` begins now (CLOCK_MONOTONIC, seconds)."""
        now = time.monotonic()
        self.current_phase = phase
        self.phase_start_seconds[phase.value] = now
        self._send({"event": "phase", "phase": phase.value, "at_seconds": now})

    def turn(self) -> None:
        """Ask for the processor and block until the parent grants it."""
        self._send({"event": "turn"})
        self._await_go()

    def meet(self, barrier: Barrier) -> None:
        """Wait at a barrier until the parent lets all tenants go on."""
        self.arrive(barrier)
        self._await_go()

    def arrive(self, barrier: Barrier) -> None:
        """Say that the barrier is reached, without waiting there: `released` tells when the others have come."""
        self._send({"event": "ready", "barrier": barrier.value, "at_seconds": time.monotonic()})

    def released(self) -> bool:
        """Whether the parent has answered the last `arrive`; a True takes the answer. Never blocks on a living one."""
        if not select.select([self._control_fd], [], [], 0)[0]:
            return False
        self._await_go()
        return True

    def _await_go(self) -> None:
        answer = self._read_line()
        if answer != "go":
            raise RuntimeError(f"the parent answered {answer!r} to a wait; only 'go' is known")

    def report(self, report: TrialReport) -> None:
        """Send all that was measured so far; a later report replaces an earlier one."""
        report.timings.phase_start_seconds = dict(self.phase_start_seconds)
        self._send({"event": "report", "report": dataclasses.asdict(report)})

    def plan(self, plan: Plan) -> None:
        """Send the compiler's plan, the result of a trial of compiled evidence."""
        self._send({"event": "plan", "plan": dataclasses.asdict(plan)})

    def failed(self, error: BaseException) -> None:
        """Say that `error` ended the trial in the current phase. `kind` is given for our own faults only."""
        fault = error if isinstance(error, TrialFault) else None
        self._send(
            {
                "event": "failed",
                "failure": {
                    "phase": self.current_phase.value if self.current_phase else None,
                    "exception": f"{type(error).__module__}.{type(error).__qualname__}",
                    "text": str(error)[:TEXT_LIMIT],
                    "traceback": "".join(traceback.format_exception(error))[-TEXT_LIMIT:],
                    "kind": fault.kind if fault else None,
                    "reason": fault.reason if fault else "exception",
                },
            }
        )

    def done(self) -> None:
        """Say that the trial ended well. The last event."""
        self._send({"event": "done", "at_seconds": time.monotonic()})

    def _send(self, message: dict[str, Any]) -> None:
        data = lines.encode_line(message).encode()
        try:
            while data:  # one write, but for a signal or a line longer than the pipe takes at once
                data = data[os.write(self._events_fd, data) :]
        except BrokenPipeError:
            _leave()

    def _read_line(self) -> str:
        while b"\n" not in self._pending:
            received = os.read(self._control_fd, 65536)
            if not received:
                _leave()
            self._pending += received
        line, _, self._pending = self._pending.partition(b"\n")
        return line.decode()


def _leave() -> NoReturn:
    """End without atexit handlers: a framework's teardown could block on a parent that is no longer there."""
    os._exit(1)
