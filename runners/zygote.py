"""`python -m runners.zygote FRAMEWORK SOCKET_FD`: imports one framework once, and forks a trial at every request.

It never creates a backend, a device or a context: it imports and forks, nothing else, and it looks before every fork
that this is still so (a process forked from one with a backend hangs). Each request is one message with the trial's id
and four descriptors: standard output, standard error, events and control. The answer holds the trial's pid.

The trial is forked twice, so that it becomes a child of the study (a subreaper), which waits for it, and not of ours.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import socket
import sys
import time
from typing import Any, NoReturn

from runners import frameworks
from runners.channel import Channel
from runners.faults import TrialFault
from runners.frameworks.base import FrameworkRunner
from runners.lifeline import die_with_parent
from runners.trial import run_trial

MESSAGE_BYTES = 4096
EVENTS, CONTROL = 3, 4


class BackendExists(RuntimeError):
    """The zygote's process has a backend; a fork of it would hang."""


def main(arguments: list[str]) -> int:
    """Serve until the study closes its end. Exit status 1 where the framework cannot be imported."""
    name, handle = arguments
    connection = socket.socket(fileno=int(handle))
    # a forked trial does not inherit this setting; it asks for itself once the study is its parent
    die_with_parent()
    try:
        runner = frameworks.load(name)
    except (TrialFault, ImportError) as error:
        _answer(connection, {"error": str(error)})
        return 1
    # what is alive now is never garbage of a trial, and a collection in a trial would copy its pages
    gc.collect()
    gc.freeze()
    _answer(connection, {"ready": True})
    serve(runner, connection)
    return 0


def serve(runner: FrameworkRunner, connection: socket.socket) -> None:
    """Fork a trial for every message until the end of the connection."""
    while True:
        message, handles, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, 4)
        if not message:
            return
        try:
            refuse_backend(runner)
            pid = fork_trial(json.loads(message)["trial_id"], handles, connection)
            _answer(connection, {"pid": pid})
        except BackendExists as error:
            _answer(connection, {"error": str(error)})
        finally:
            for one in handles:
                os.close(one)


def refuse_backend(runner: FrameworkRunner) -> None:
    """Raises `BackendExists` where this process holds a backend: it must not fork any more."""
    if runner.has_backend():
        raise BackendExists(
            f"this process holds a backend of {runner.name}: a fork of it would hang, so it forks no more"
        )


def fork_trial(trial_id: str, handles: list[int], connection: socket.socket) -> int:
    """The pid of a new trial that is on its way to the study as its parent."""
    read, write = os.pipe()
    middle = os.fork()
    if middle == 0:
        between = os.getpid()
        pid = os.fork()
        if pid:
            os.write(write, str(pid).encode())
            os._exit(0)
        _become_trial(trial_id, between, handles, [read, write, connection.fileno()])
    os.close(write)
    os.waitpid(middle, 0)
    with os.fdopen(read, "rb") as pipe:
        return int(pipe.read())


def _become_trial(trial_id: str, middle: int, handles: list[int], ours: list[int]) -> NoReturn:
    status = 70
    try:
        for one in ours:
            os.close(one)
        os.setsid()
        _take_descriptors(handles)
        _await_adoption(middle)
        die_with_parent()
        os.environ["STUDY_TRIAL_ID"] = trial_id
        channel = Channel(EVENTS, CONTROL)
        status = run_trial(channel.receive_spec(), channel)
    finally:
        # never back into the zygote's loop, nor through its exit handlers
        with contextlib.suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


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
    connection.sendall(json.dumps(message).encode())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
