"""How a trial's process comes to be: forked by a zygote, or spawned as a fresh interpreter, as its condition asks."""

from __future__ import annotations

from pathlib import Path

from runners.specs import TrialSpec
from study.errors import RequestError
from study.launch import ChildEnds, spawn
from study.processes import Process
from study.zygote import ZygoteError, ZygoteTable


class Starters:
    """Starts trials, and remembers how each came to be. Use as a context manager: the zygotes end with it."""

    def __init__(self, folder: Path) -> None:
        logs = folder / "logs"
        try:
            logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RequestError(
                f"{logs} cannot be a folder: {error.strerror}; move what is in its place away"
            ) from error
        self._zygotes = ZygoteTable(logs)
        self.warnings: dict[str, str] = {}
        self.ways: dict[str, str] = {}

    def __enter__(self) -> Starters:
        return self

    def __exit__(self, *_: object) -> None:
        self._zygotes.close()

    def start(self, spec: TrialSpec, ends: ChildEnds) -> Process:
        """The trial's process. Where a zygote fails the trial is spawned, and its record says so.

        Raises:
            OSError: the interpreter cannot be started.
        """
        if spec.settings.get("protocol.start") == "zygote":
            try:
                process = self._zygotes.start(spec, ends)
            except ZygoteError as error:
                self.warnings[spec.trial_id] = f"not forked from a zygote but spawned: {error}"
            else:
                self.ways[spec.trial_id] = "zygote"
                return process
        self.ways[spec.trial_id] = "spawn"
        return spawn(spec, ends)

    def pids(self) -> set[int]:
        """Processes of ours that belong to no trial."""
        return self._zygotes.pids()
