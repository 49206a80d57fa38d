"""Who may run a group of trials: one worker at a time, whichever batch or job brought it there.

A lease is a lock (flock(2)) on leases/GROUP. The kernel lets go when its owner ends, however it ends; over NFS the lock
is the server's (NFSv4: freed by the server's lease time after a client is lost, 90 s by default). A file system without
locks across nodes (NFS mounted with nolock or local_lock, Lustre without -o flock) cannot hold a study with workers.

The owners' session ids stand in the file. Taking a lock makes an NFS client read that file afresh, so the next owner
learns the names of journals that its cached listing of the folder may not have yet.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from study.config import digest
from study.errors import StorageError

POLL_SECONDS = 0.5
_NO_LOCKS = {errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL}


@contextlib.contextmanager
def lease(folder: Path, trial_ids: Iterable[str], session_id: str) -> Iterator[list[str]]:
    """Hold the group of these trials; waits for its present owner to finish or to die. Gives the earlier owners' ids.

    Raises:
        StorageError: the folder cannot be written, or its file system has no locks.
    """
    path = _path(folder, trial_ids)
    try:
        path.parent.mkdir(exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StorageError(f"{path} could not be written: {error.strerror}") from error
    try:
        while not _locked(handle, path, fcntl.LOCK_EX):
            time.sleep(POLL_SECONDS)
        owners = os.pread(handle, 1 << 20, 0).decode(errors="replace").split()
        os.write(handle, f"{session_id}\n".encode())
        yield owners
    finally:
        os.close(handle)


def is_held(folder: Path, trial_ids: Iterable[str]) -> bool:
    """Whether a living worker has the group of these trials."""
    return _is_locked(_path(folder, trial_ids))


@contextlib.contextmanager
def presence(path: Path) -> Iterator[None]:
    """Show, as long as this lasts, that a worker is at work on the batch in this file."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        while not _locked(handle, path, fcntl.LOCK_SH):
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)


def is_present(path: Path) -> bool:
    """Whether a living worker has the batch in this file."""
    return _is_locked(path)


def _path(folder: Path, trial_ids: Iterable[str]) -> Path:
    return folder / "leases" / digest(sorted(trial_ids))


def _is_locked(path: Path) -> bool:
    try:
        # an exclusive lock needs a file that is open for writing where NFS stands in for the kernel
        handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _locked(handle, path, fcntl.LOCK_EX)
    finally:
        os.close(handle)


def _locked(handle: int, path: Path, kind: int) -> bool:
    """Try once to lock. Raises `StorageError` where the file system has no locks."""
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _NO_LOCKS:
            raise StorageError(
                f"the file system of {path} has no locks ({error.strerror}): workers could run a trial twice. "
                "Put the study on NFSv4, on Lustre mounted with -o flock, or on a local disk"
            ) from error
        raise
    return True


def withdraw(path: Path) -> bool:
    """Take a batch's file away, so that a job that still waits in a queue finds none; False where a worker has it."""
    handle = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if not _locked(handle, path, fcntl.LOCK_EX):
            return False
        path.unlink()
        return True
    finally:
        os.close(handle)


@contextlib.contextmanager
def whole_processor() -> Iterator[None]:
    """Hold this machine's processors against other workers on it: launchers may start several at once.

    The lock lies in the machine's own folder for temporary files, one for each user.
    """
    path = Path(tempfile.gettempdir()) / f"study-cpu-{os.getuid()}.lock"
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while not _locked(handle, path, fcntl.LOCK_EX):
            time.sleep(POLL_SECONDS)
        yield
    finally:
        os.close(handle)
