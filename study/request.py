"""What became of the request: the one piece of state that the entry point and Hydra's callbacks share.

Hydra calls our sweeper and our job function and returns nothing of theirs; the exit status travels here.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from study.errors import EXIT_OK, RequestError, StorageError

if TYPE_CHECKING:
    from study.config import StudyOptions
    from study.design import Design


@dataclass
class Request:
    """The command as typed, and how far it came."""

    command: str = ""
    multirun: bool = False
    studies: list[tuple[Design, StudyOptions]] = field(default_factory=list)
    #: Of a dry run on other machines: a sentence for each study.
    jobs: list[str] = field(default_factory=list)
    exit_status: int = EXIT_OK
    error: RequestError | StorageError | None = None

    def accept(self, studies: list[tuple[Design, StudyOptions]]) -> None:
        """The whole request has been composed and checked: one study, or one for each theme of a preset."""
        self.studies = studies

    @contextlib.contextmanager
    def guarded(self) -> Iterator[None]:
        """Keep our own errors from Hydra, which would print them among its own advice."""
        try:
            yield
        except (RequestError, StorageError) as error:
            self.error = error


REQUEST = Request()
