"""Programs that a test starts, waits for and ends again, whatever happens in between."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

START_SECONDS = 60.0


class Daemons:
    """Starts programs, each with a log in `folder`; as a context manager it ends them, the last one first."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        self._folder, self._environment = folder, {**os.environ, **variables}
        self._running: list[subprocess.Popen[bytes]] = []

    def start(self, *command: str, log: str = "") -> None:
        """Start a program in a session of its own, so that Ctrl-C reaches the test alone."""
        program = [str(tool(command[0])), *command[1:]]
        with (self._folder / f"{log or Path(command[0]).name}.log").open("ab") as file:
            self._running.append(
                subprocess.Popen(program, env=self._environment, stdout=file, stderr=file, start_new_session=True)
            )

    def answers(self, *command: str) -> bool:
        """Whether a command ends well."""
        return subprocess.run(command, env=self._environment, capture_output=True, check=False).returncode == 0

    def says(self, *command: str) -> str:
        """What a command prints. Raises `CalledProcessError` where it fails."""
        return subprocess.check_output(command, env=self._environment, text=True)

    def __enter__(self) -> Daemons:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._print_logs()
        for process in reversed(self._running):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _print_logs(self) -> None:
        for path in sorted(self._folder.glob("*.log")):
            print(f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}", file=sys.stderr)


def tool(name: str) -> str | None:
    """The path of a program, also of one that only root has on its PATH."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def listens(port: int, address: str = "127.0.0.1") -> bool:
    """Whether something takes connections at a port."""
    with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=1):
        return True
    return False


def until(ready: Callable[[], object], what: str, seconds: float = START_SECONDS) -> None:
    """Wait for something. Raises `TimeoutError` where it does not come."""
    deadline = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:.0f} s")
        time.sleep(0.3)
