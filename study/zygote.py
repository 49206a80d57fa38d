"""The study's side of the zygotes: one per interpreter, framework and environment, at most a few alive.

A zygote (runners/zygote.py) has imported a framework and forks a trial on request. Different environments need
different zygotes, because a framework reads some variables while it is imported.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from runners.records import Evidence
from runners.specs import TrialSpec
from study import contexts
from study.config import digest
from study.launch import ChildEnds, environment, interpreter, spawn_process
from study.processes import Process

MOST_ALIVE = 4
#: All zygotes together may hold this share of the physical memory (resident); the least recently used goes first.
MOST_MEMORY_SHARE = 0.125
MESSAGE_BYTES = 4096
START_SECONDS = 120.0
FORK_SECONDS = 10.0


class ZygoteError(Exception):
    """A zygote could not start or would not fork; the text says why."""


@dataclass
class Zygote:
    """A living zygote: its process, our end of its socket, and its spare, the process that becomes the next trial."""

    process: Process
    connection: socket.socket
    spare: Process | None = None
    #: Whether the zygote has still to name its next spare.
    owes_spare: bool = False

    def begin(self) -> None:
        """Wait until it has imported its framework. Raises `ZygoteError` where it cannot."""
        self.spare = _process(int(self.answer(START_SECONDS, "ready")))

    def fork(self, spec: TrialSpec, ends: ChildEnds) -> Process:
        """A new trial. Raises `ZygoteError` where the zygote is gone or refuses."""
        self._learn_spare()
        try:
            handles = [ends.stdout, ends.stderr, ends.events, ends.control]
            socket.send_fds(self.connection, [json.dumps({"trial_id": spec.trial_id}).encode()], handles)
        except OSError as error:
            raise ZygoteError(f"the zygote is gone ({error.strerror})") from error
        self.answer(FORK_SECONDS, "pid")
        trial, self.spare, self.owes_spare = self.spare, None, True
        assert trial is not None, "a zygote that answers has had a spare"
        return trial

    def pids(self) -> set[int]:
        """Its process and its spare, which belong to no trial."""
        # an error is said again, by the next fork
        with contextlib.suppress(ZygoteError):
            self._learn_spare()
        return {one.pid for one in (self.process, self.spare) if one is not None}

    def _learn_spare(self) -> None:
        if self.owes_spare:
            self.spare = _process(int(self.answer(FORK_SECONDS, "spare")))
            self.owes_spare = False

    def answer(self, seconds: float, key: str) -> Any:
        """The value of `key` in the zygote's next message. Raises `ZygoteError` for silence, an end or an error."""
        poll = select.poll()
        poll.register(self.connection, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise ZygoteError(f"the zygote did not answer within {seconds:g} s")
        message = self.connection.recv(MESSAGE_BYTES)
        if not message:
            raise ZygoteError("the zygote ended without an answer; its log is logs/zygote-*.err")
        answer = json.loads(message)
        if key not in answer:
            raise ZygoteError(str(answer.get("error", answer)))
        return answer[key]

    def memory_bytes(self) -> int:
        """Resident memory in bytes; 0 once it has ended. The spare shares it, but for its page tables."""
        try:
            return int(psutil.Process(self.process.pid).memory_info().rss)
        except psutil.NoSuchProcess:
            return 0

    def retire(self) -> None:
        """End it: closing the connection is enough for a healthy one, SIGKILL for any other."""
        with contextlib.suppress(ZygoteError):
            self._learn_spare()
        self.connection.close()
        for one in (self.process, self.spare):
            if one is not None:
                if not one.ended_within(1.0):
                    one.kill()
                one.reap()


class ZygoteTable:
    """All living zygotes of a study, the most recently used last."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._alive: dict[str, Zygote] = {}

    def start(self, spec: TrialSpec, ends: ChildEnds) -> Process:
        """Fork the trial from the zygote that fits, starting that one first where there is none.

        Raises:
            ZygoteError: it cannot start or will not fork; the broken one is ended.
        """
        key = digest({"python": interpreter(spec), "framework": spec.framework.name, "environment": environment(spec)})
        zygote = self._alive.pop(key, None) or self._make(spec, key)
        try:
            process = zygote.fork(spec, ends)
        except ZygoteError:
            zygote.retire()
            raise
        self._alive[key] = zygote
        self._keep_few()
        return process

    def pids(self) -> set[int]:
        """The processes of the zygotes and their spares, which are no trial's leftovers."""
        return {pid for zygote in self._alive.values() for pid in zygote.pids()}

    def close(self) -> None:
        """End all of them."""
        while self._alive:
            self._alive.popitem()[1].retire()

    def _make(self, spec: TrialSpec, key: str) -> Zygote:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        logs = [os.open(self._logs / f"zygote-{key}.{suffix}", flags, 0o644) for suffix in ("out", "err")]
        try:
            process = spawn_process(
                [interpreter(spec), "-P", "-m", "runners.zygote", spec.framework.name, "3"],
                environment(spec),
                [*logs, theirs.fileno()],
            )
        except OSError:
            ours.close()
            raise
        finally:
            theirs.close()
            for one in logs:
                os.close(one)
        zygote = Zygote(process, ours)
        try:
            zygote.begin()
            # a trial that compiles for a device is kept off it
            compiled = spec.evidence == Evidence.COMPILED
            held = None if compiled else contexts.holds_device(process.pid, spec.device.kind)
            if held is not None:
                raise ZygoteError(f"a fork would not be safe: {held}")
        except ZygoteError:
            zygote.retire()
            raise
        return zygote

    def _keep_few(self) -> None:
        """Retire the least recently used until few enough are left, in number and in memory; the newest stays."""
        most = MOST_MEMORY_SHARE * psutil.virtual_memory().total
        while len(self._alive) > 1 and (len(self._alive) > MOST_ALIVE or self.memory_bytes() > most):
            self._alive.pop(next(iter(self._alive))).retire()

    def memory_bytes(self) -> int:
        """Resident memory of all of them, in bytes."""
        return sum(zygote.memory_bytes() for zygote in self._alive.values())


def _process(pid: int) -> Process:
    return Process(pid, os.pidfd_open(pid))
