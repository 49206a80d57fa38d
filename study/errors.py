"""The errors that end a request, each with its exit status."""

from __future__ import annotations

from typing import Any

#: Integers above it are no exact numbers in every reader of a table.
MOST = 2**53

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_REQUEST = 2
EXIT_INTERRUPTED = 130


class RequestError(Exception):
    """The request itself is wrong. Raised before anything is launched; the text names the value and what to do."""


class StorageError(Exception):
    """A record could not be put on disk. Nothing that was not written is acknowledged; the study can be resumed."""


def require(fine: bool, key: str, value: Any, wanted: str) -> None:
    """Raise `RequestError` for a setting whose value is not fine, with what it takes instead."""
    if not fine:
        raise RequestError(f"{key}={value} is not possible; it takes {wanted}")
