"""`python -m runners.zygote FRAMEWORK SOCKET_FD`: imports one framework once, and forks a trial at every request.

It never creates a backend, a device or a context: it imports and forks, nothing else, and it looks before every fork
that this is still so (a process forked from one with a backend hangs). Each request is one message with the trial's id
and four descriptors: standard output, standard error, events and control.

A fork of a large process takes longer than all else that stands before a trial, so one process is always forked ahead:
the spare, which waits for the next request and then becomes that trial. The spare after it is forked while the trial
prepares itself, before anything is measured. Answers: {"ready": PID of the first spare}; for each request {"pid": PID
of the trial}, then {"spare": PID of the next}; {"error": TEXT} where there will be no further one.

The spare is forked twice, so that it becomes a child of the study (a subreaper), which waits for it, and not of ours.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any, NoReturn

from runners import frameworks
from runners.channel import Channel
from runners.compiled.process import start_ahead
from runners.faults import TrialFault
from runners.frameworks.base import FrameworkRunner
from runners.lifeline import die_with_parent
from runners.trial import run_trial

MESSAGE_BYTES = 4096
EVENTS, CONTROL = 3, 4


class BackendExists(RuntimeError):
    """The zygote's process has a backend; a fork of it would hang."""


@dataclass
class Spare:
    """A process that waits to become the next trial: its pid, and our end of its socket."""

    pid: int
    connection: socket.socket

    def become(self, message: bytes, handles: list[int]) -> None:
        """Make it the trial of this request. Raises `OSError` where it is gone."""
        socket.send_fds(self.connection, [message], handles)
        self.connection.close()


def main(arguments: list[str]) -> int:
    """Serve until the study closes its end. Exit status 1: the framework cannot be imported, or no fork be made."""
    name, handle = arguments
    connection = socket.socket(fileno=int(handle))
    # a forked trial does not inherit this setting; it asks for itself once the study is its parent
    die_with_parent()
    try:
        runner = frameworks.load(name)
        # what is alive now is never garbage of a trial, and a collection in a trial would copy its pages
        gc.collect()
        gc.freeze()
        serve(runner, connection)
    except (TrialFault, ImportError, BackendExists, OSError) as error:
        _answer(connection, {"error": str(error)})
        return 1
    return 0


def serve(runner: FrameworkRunner, connection: socket.socket) -> None:
    """Make a trial of the spare for every message until the end of the connection.

    Raises:
        BackendExists: this process must not fork any more.
        OSError: the spare is gone, or there can be no other.
    """
    spare = fork_spare(runner, connection)
    _answer(connection, {"ready": spare.pid})
    while True:
        message, handles, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
        if not message:
            return
        try:
            spare.become(message, handles)
        finally:
            # before the next fork: a spare that held the pipes of a trial would keep them open
            for one in handles:
                os.close(one)
        _answer(connection, {"pid": spare.pid})
        spare = fork_spare(runner, connection)
        _answer(connection, {"spare": spare.pid})


def refuse_backend(runner: FrameworkRunner) -> None:
    """Raises `BackendExists` where this process holds a backend: it must not fork any more."""
    if runner.has_backend():
        raise BackendExists(
            f"this process holds a backend of {runner.name}: a fork of it would hang, so it forks no more"
        )


def fork_spare(runner: FrameworkRunner, connection: socket.socket) -> Spare:
    """A new process, the study's child already, that waits for its request. Raises `BackendExists` or `OSError`."""
    refuse_backend(runner)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        between = os.getpid()
        pid = os.fork()
        if pid:
            os.write(write, str(pid).encode())
            os._exit(0)
        for one in (read, write, connection.fileno(), ours.fileno()):
            os.close(one)
        _live(its, between)
    its.close()
    os.close(write)
    os.waitpid(middle, 0)
    with os.fdopen(read, "rb") as pipe:
        return Spare(int(pipe.read()), ours)


def _live(connection: socket.socket, middle: int) -> NoReturn:
    """A spare's life: wait for the request, be the trial, end. Without a request it ends when the zygote does."""
    status = 70
    try:
        os.setsid()
        _await_adoption(middle)
        die_with_parent()
        start_ahead()
        message, handles, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
        connection.close()
        status = _be_trial(json.loads(message)["trial_id"], handles) if message else 0
    finally:
        # never back into the zygote's loop, nor through its exit handlers
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _be_trial(trial_id: str, handles: list[int]) -> int:
    _take_descriptors(handles)
    os.environ["STUDY_TRIAL_ID"] = trial_id
    channel = Channel(EVENTS, CONTROL)
    return run_trial(channel.receive_spec(), channel)


def _take_descriptors(handles: list[int]) -> None:
    """Put the four on 1 … 4 by way of high numbers, so that none is overwritten; nothing as standard input."""
    null = os.open(os.devnull, os.O_RDONLY)
    base = 1 + max([64, null, *handles])
    lifted = [os.dup2(source, base + target, inheritable=False) for target, source in enumerate([null, *handles])]
    for one in (null, *handles):
        os.close(one)
    for target, source in enumerate(lifted):
        os.dup2(source, target)
        os.close(source)


def _await_adoption(middle: int) -> None:
    """Return once the process between us and the zygote has ended, so that the study is our parent."""
    while os.getppid() == middle:
        time.sleep(0.0005)


def _answer(connection: socket.socket, message: dict[str, Any]) -> None:
    with contextlib.suppress(BrokenPipeError):  # the study is gone, and with it whoever could read this
        connection.sendall(json.dumps(message).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
