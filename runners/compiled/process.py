"""The compiler's process, from the trial's side: started early, given a module, asked for its plan.

Where this process is a zygote's child that has imported JAX already, on the interpreter that compiles, the compiler is
a fork of it, which saves importing JAX once more. Everywhere else it is a fresh interpreter; a zygote's spare starts
that ahead, so that it has imported JAX by the time there is something to compile.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import signal
import socket
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn

from runners import lines
from runners.compiled import __main__ as compiler
from runners.compiled import targets
from runners.faults import TrialFault
from runners.records import Plan
from runners.specs import ChipSpec


class CompilerError(RuntimeError):
    """What the compiler said when it refused a module."""


@dataclass
class Started:
    """A compiler that waits for its request: its pid, and our end of its socket."""

    pid: int
    connection: socket.socket


FIRST_HIGH_DESCRIPTOR = 64

#: What `start_ahead` started in this process.
_ahead: list[Started] = []


def start_ahead() -> None:
    """Start the compiler of the trial that this process will become, if it is to become one of compiled evidence.

    The low descriptors are left to what the trial will be given.
    """
    if targets.INTERPRETER_VARIABLE in os.environ and not _holds_jax():
        started = _spawn()
        high = fcntl.fcntl(started.connection, fcntl.F_DUPFD_CLOEXEC, FIRST_HIGH_DESCRIPTOR)
        started.connection.close()
        _ahead.append(Started(started.pid, socket.socket(fileno=high)))


class CompilerProcess:
    """One compilation. Use as a context manager: the process and the folder it dumps into end with it."""

    def __init__(self, chip: ChipSpec | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="study-compiler-")
        folder = Path(self._folder.name)
        platform = "cpu" if chip is None else chip.platform
        self._target = {
            "chip": None if chip is None else dataclasses.asdict(chip),
            "variables": {**targets.environment(platform, folder), targets.DUMP_VARIABLE: str(folder)},
        }
        started = _ahead.pop() if _ahead else _fork() if _holds_jax() else _spawn()
        self._pid, self._connection = started.pid, started.connection
        self._status: int | None = None

    def __enter__(self) -> CompilerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self._wait()
        self._connection.close()
        self._folder.cleanup()

    def plan(self, module: bytes, form: str, donated: int) -> Plan:
        """The plan of a lowered module; its first `donated` arguments are given to the results of the same number.

        Raises:
            TrialFault: unavailable, where the compiler is not installed or knows no such chip.
            CompilerError: it refused the module; the text is its own.
        """
        header = json.dumps({**self._target, "form": form, "donated": donated}) + "\n"
        # where the process has ended already, its status says how
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(self._connection, [b"\n"], [sys.stderr.fileno()])
            self._connection.sendall(header.encode() + module)
            self._connection.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError), self._connection.makefile("rb") as answers:
            answer = answers.read()
        status = self._wait()
        if not answer.endswith(b"\n"):
            _end_alike(status)
        return _read(lines.decode_line(answer.decode()))

    def _wait(self) -> int:
        self._status = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        return self._status


def _read(answer: dict[str, Any]) -> Plan:
    if "fault" in answer:
        raise TrialFault(**answer["fault"])
    if "error" in answer:
        raise CompilerError(answer["error"])
    return lines.plan_from_dict(answer["plan"])


def _end_alike(status: int) -> NoReturn:
    """End as the compiler ended, so that the study classifies a kill or an abort by its signal."""
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no handler to reset
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    raise CompilerError(f"the compiler's process ended with exit status {status} and gave no plan")


def _holds_jax() -> bool:
    """Whether this process has imported the compiler's JAX, and no backend, which would not survive a fork."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and targets.interpreter() == sys.executable and not bridge.backends_are_initialized()


def _fork() -> Started:
    """A fork of this process that compiles and ends."""
    ours, its = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            ours.close()
            compiler.serve(its)
        finally:
            os._exit(70)
    its.close()
    return Started(pid, ours)


def _spawn() -> Started:
    """A fresh interpreter that imports, compiles and ends; its socket is its standard input."""
    ours, its = socket.socketpair()
    command = [targets.interpreter(), "-P", "-m", "runners.compiled"]
    try:
        pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, its.fileno(), 0)])
    except OSError:
        ours.close()
        raise
    finally:
        its.close()
    return Started(pid, ours)
