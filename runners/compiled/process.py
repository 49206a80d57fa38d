"""The compiler's process, from the trial's side: started early, given a module, asked for its plan."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from runners import records
from runners.compiled import targets
from runners.faults import TrialFault
from runners.records import ChipSpec, Plan


class CompilerError(RuntimeError):
    """What the compiler said when it refused a module."""


class CompilerProcess:
    """One compilation. Use as a context manager: the process and the folder it dumps into end with it."""

    def __init__(self, chip: ChipSpec | None) -> None:
        self._platform = "cpu" if chip is None else chip.platform
        self._folder = tempfile.TemporaryDirectory(prefix="study-compiler-")
        folder = Path(self._folder.name)
        sheet = json.dumps(None if chip is None else dataclasses.asdict(chip))
        self._process = subprocess.Popen(
            [targets.interpreter(), "-P", "-m", "runners.compiled", sheet],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **targets.environment(self._platform, folder), targets.DUMP_VARIABLE: str(folder)},
        )

    def __enter__(self) -> CompilerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None, "both were asked for"
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        self._folder.cleanup()

    def plan(self, module: bytes, form: str, donated: int) -> Plan:
        """The plan of a lowered module; its first `donated` arguments are given to the results of the same number.

        Raises:
            TrialFault: unavailable, where the compiler is not installed or knows no such chip.
            CompilerError: it refused the module; the text is its own.
        """
        header = json.dumps({"form": form, "donated": donated}) + "\n"
        try:
            output, _ = self._process.communicate(header.encode() + module)
        except BrokenPipeError:
            output = b""
        return self._read(output)

    def _read(self, output: bytes) -> Plan:
        if not output.endswith(b"\n"):
            self._pass_on(self._process.wait())
        answer: dict[str, Any] = records.decode_line(output.decode())
        if "fault" in answer:
            raise TrialFault(**answer["fault"])
        if "error" in answer:
            raise CompilerError(answer["error"])
        return records.plan_from_dict(answer["plan"])

    def _pass_on(self, status: int) -> None:
        """End as the compiler ended, so that the study classifies a kill or an abort by its signal."""
        if status < 0:
            signal.signal(-status, signal.SIG_DFL) if -status != signal.SIGKILL else None
            os.kill(os.getpid(), -status)
        raise CompilerError(f"the compiler's process ended with exit status {status} and gave no plan")
