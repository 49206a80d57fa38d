"""A worker of tests/benchmarks/ceiling.py: everything of a real one, but its trials, which sleep.

It is a module of its own so that a launcher can send `job` by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from omegaconf import DictConfig

from runners.records import Outcome, OutcomeKind, Phase, TrialRecord
from runners.specs import TrialSpec
from study import leases, worker
from study.progress import Progress
from study.starters import Starters
from tests.study.samples import record

TRIAL_SECONDS = 0.005
#: Beside the study's folder: what each worker's clocks say, in seconds.
CLOCKS = "clocks"

Spent = dict[str, float]


def job(config: DictConfig) -> str:
    """In place of `study.jobs.job`: run the batch, and leave this worker's clocks in a file."""
    path = Path(config.study.batch)
    spent: Spent = {"sleep": 0.0, "fsync": 0.0, "lease": 0.0}

    def sleeper(starters: Starters, folder: Path, progress: Progress) -> Sleeper:  # noqa: ARG001
        return Sleeper(spent)

    with _a_node_of_its_own(), clocked(os, "fsync", spent), _clocked_leases(spent):
        start, cpu = time.monotonic(), time.process_time()
        worker.run(path, sleeper)
        spent |= {"cpu": time.process_time() - cpu, "start": start, "end": time.monotonic()}
    folder = path.parent.parent / CLOCKS
    folder.mkdir(exist_ok=True)
    (folder / f"{path.stem}.json").write_text(json.dumps(spent))
    return ""


class Sleeper:
    """In place of a supervisor: a trial is a sleep and a record of the usual size."""

    def __init__(self, spent: Spent) -> None:
        self._spent = spent

    def run(self, group: Sequence[TrialSpec], finished: Callable[[TrialRecord], None]) -> None:
        """Sleep for each trial."""
        for spec in group:
            with clock(self._spent, "sleep"):
                time.sleep(TRIAL_SECONDS)
            made = record(0, windows=(0.005,) * 15)
            made.spec, made.outcome = spec, Outcome(OutcomeKind.OK, Phase.TEARDOWN)
            finished(made)


@contextlib.contextmanager
def _a_node_of_its_own() -> Iterator[None]:
    """The lock on a machine's processors lies among its temporary files."""
    with tempfile.TemporaryDirectory() as own, mock.patch.object(tempfile, "tempdir", own):
        yield


@contextlib.contextmanager
def clock(spent: Spent, what: str) -> Iterator[None]:
    """Add the seconds that this lasts."""
    begun = time.monotonic()
    try:
        yield
    finally:
        spent[what] = spent.get(what, 0.0) + time.monotonic() - begun


@contextlib.contextmanager
def clocked(holder: Any, name: str, spent: Spent, what: str | None = None) -> Iterator[None]:
    """The seconds that a function of a module or class takes are added up, as long as this lasts."""
    function = getattr(holder, name)

    def timed(*arguments: Any, **named: Any) -> Any:
        with clock(spent, what or name):
            return function(*arguments, **named)

    with mock.patch.object(holder, name, timed):
        yield


@contextlib.contextmanager
def _clocked_leases(spent: Spent) -> Iterator[None]:
    """Taking a lease and giving it back, without what is done under it."""
    lease = leases.lease

    @contextlib.contextmanager
    def timed(*arguments: Any) -> Iterator[list[str]]:
        with contextlib.ExitStack() as stack:
            with clock(spent, "lease"):
                owners = stack.enter_context(lease(*arguments))
            yield owners
            with clock(spent, "lease"):
                stack.close()

    with mock.patch.object(leases, "lease", timed):
        yield
