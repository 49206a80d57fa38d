"""The compiler's process, from the trial's side: started early, given a module, asked for its plan.

Where this process is a zygote's child that has imported JAX already, on the interpreter that compiles, the compiler is
a fork of it, which saves importing JAX once more; everywhere else it is a fresh interpreter.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
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


class CompilerProcess:
    """One compilation. Use as a context manager: the process and the folder it dumps into end with it."""

    def __init__(self, chip: ChipSpec | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="study-compiler-")
        folder = Path(self._folder.name)
        platform = "cpu" if chip is None else chip.platform
        variables = {**targets.environment(platform, folder), targets.DUMP_VARIABLE: str(folder)}
        sheet = json.dumps(None if chip is None else dataclasses.asdict(chip))
        start = _fork if _holds_jax() else _spawn
        self._pid, self._requests, self._answers = start(sheet, variables)
        self._status: int | None = None

    def __enter__(self) -> CompilerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is None:
            os.kill(self._pid, signal.SIGKILL)
            self._wait()
        for handle in (self._requests, self._answers):
            with contextlib.suppress(OSError):
                os.close(handle)
        self._folder.cleanup()

    def plan(self, module: bytes, form: str, donated: int) -> Plan:
        """The plan of a lowered module; its first `donated` arguments are given to the results of the same number.

        Raises:
            TrialFault: unavailable, where the compiler is not installed or knows no such chip.
            CompilerError: it refused the module; the text is its own.
        """
        header = json.dumps({"form": form, "donated": donated}) + "\n"
        # where the process has ended already, its status says how
        with contextlib.suppress(BrokenPipeError), os.fdopen(os.dup(self._requests), "wb") as pipe:
            os.close(self._requests)
            pipe.write(header.encode() + module)
        with os.fdopen(os.dup(self._answers), "rb") as pipe:
            answer = pipe.read()
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


def _fork(sheet: str, variables: dict[str, str]) -> tuple[int, int, int]:
    """(pid, pipe to it, pipe from it) of a fork of this process that compiles and ends."""
    (request, requests), (answers, answer) = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(request, 0)
            os.dup2(answer, 1)
            for handle in (request, requests, answers, answer):
                os.close(handle)
            os.environ.update(variables)
            compiler.main([sheet])
        finally:
            os._exit(70)
    os.close(request)
    os.close(answer)
    return pid, requests, answers


def _spawn(sheet: str, variables: dict[str, str]) -> tuple[int, int, int]:
    """(pid, pipe to it, pipe from it) of a fresh interpreter that compiles and ends."""
    (request, requests), (answers, answer) = os.pipe(), os.pipe()
    command = [targets.interpreter(), "-P", "-m", "runners.compiled", sheet]
    actions = [(os.POSIX_SPAWN_DUP2, request, 0), (os.POSIX_SPAWN_DUP2, answer, 1)]
    try:
        pid = os.posix_spawn(command[0], command, {**os.environ, **variables}, file_actions=actions)
    finally:
        os.close(request)
        os.close(answer)
    return pid, requests, answers
