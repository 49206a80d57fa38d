"""The function that a Hydra launcher calls, in this process or on another machine.

It is a module of its own so that a launcher can send it by name: the program's first module has none.
"""

from __future__ import annotations

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from study import session, worker
from study.batches import JOBS
from study.errors import EXIT_FINDINGS, RequestError, StorageError
from study.request import REQUEST


def job(config: DictConfig) -> int | str:
    """Run one of the request's studies here, by its number, or a batch that the sweeper has put into a file.

    A worker's answer is "" or a sentence on what went wrong; a study's is its exit status.
    """
    path = Path(config.study.batch)
    if path.parent.name == JOBS:
        return _work(path)
    design, options = REQUEST.studies[int(config.study.batch)]
    try:
        return session.run(design, options, Console())
    except (RequestError, StorageError) as error:
        # said once, at the end; Hydra would print its own advice first
        REQUEST.error = error
        return EXIT_FINDINGS


def _work(path: Path) -> str:
    try:
        worker.run(path)
    except (RequestError, StorageError) as error:
        return str(error)
    return ""
