"""The errors that end a request, each with its exit status."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_REQUEST = 2
EXIT_INTERRUPTED = 130


class RequestError(Exception):
    """The request itself is wrong. Raised before anything is launched; the text names the value and what to do."""


class StorageError(Exception):
    """A record could not be put on disk. Nothing that was not written is acknowledged; the study can be resumed."""
