"""Whole process trees: who belongs to a trial, and ending all of them.

The study is a child subreaper (prctl(2), PR_SET_CHILD_SUBREAPER): a descendant that loses its parent, even one that
left the session by setsid, becomes the study's own child instead of init's, so that it can be found and ended. Every
trial carries its id in the environment variable STUDY_TRIAL_ID, which descendants inherit and /proc shows.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TRIAL_VARIABLE = "STUDY_TRIAL_ID"
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 0.3


@dataclass
class Process:
    """A trial's first process: its pid, and a pidfd that names it whatever the kernel reuses."""

    pid: int
    pidfd: int
    exit_code: int | None = None
    signal: int | None = None

    def reap(self) -> None:
        """Take the exit status. Blocks until the process has ended."""
        status = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED)
        assert status is not None
        if status.si_code == os.CLD_EXITED:
            self.exit_code = status.si_status
        else:
            self.signal = status.si_status
        os.close(self.pidfd)

    def kill(self) -> None:
        """SIGKILL, if it still runs."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    def ended_within(self, seconds: float) -> bool:
        """Whether the process has ended, waiting at most so long."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def become_subreaper() -> None:
    """Adopt orphaned descendants. Raises `OSError` where the kernel refuses."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER) failed")


@dataclass(frozen=True)
class Tree:
    """What marks the processes of one trial: its id, its first process, the pipe that its events go into.

    `strays` are processes that we adopted while only this trial was at work: they need no other mark.
    """

    trial_id: str
    leader: int
    pipe: int
    strays: frozenset[int] = frozenset()


def end(process: Process, tree: Tree) -> None:
    """End a trial's first process: SIGTERM, a short grace, SIGKILL. `end_leftovers` takes the rest."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(process.pidfd, signal.SIGTERM)
        # a stopped process acts on SIGTERM only once it is continued
        signal.pidfd_send_signal(process.pidfd, signal.SIGCONT)
    if not process.ended_within(GRACE_SECONDS):
        _kill_together(members(tree))
        process.kill()
    process.reap()


def end_leftovers(tree: Tree) -> int:
    """Kill and reap what is left of a trial's tree after its first process has ended; returns how many were found."""
    return _end_all(lambda: members(tree))


def end_orphans(known: set[int]) -> int:
    """Kill and reap every process that we adopted and that is none of `known`; returns how many were found.

    For leftovers that carry no mark of their trial; only to be called while no trial runs.
    """
    if children() <= known:
        return 0

    def orphans() -> list[int]:
        table = _table()
        return _living(_descendants(table, os.getpid(), without=known), table)

    return _end_all(orphans)


def children() -> set[int]:
    """Our own children now, adopted and ended ones included.

    The kernel lists them by thread (proc(5), /proc/PID/task/TID/children), at a cost that does not grow with the
    machine. It can leave one out only while another is being reaped, which is done by nobody but us.
    """
    try:
        threads = Path("/proc/self/task").iterdir()
        listed = [(thread / "children").read_text().split() for thread in threads]
    except (FileNotFoundError, ProcessLookupError):
        # a kernel without CONFIG_PROC_CHILDREN, or a thread that has just ended
        own = os.getpid()
        return {pid for pid, (parent, _, _) in _table().items() if parent == own}
    return {int(pid) for pids in listed for pid in pids}


def present() -> frozenset[int]:
    """Every process of this machine now."""
    return frozenset(int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdigit())


def members(tree: Tree) -> list[int]:
    """The living processes of a trial except its first.

    They are among our descendants (we adopt orphans). They share its session, descend from it, carry its id in the
    environment they were started with, hold the pipe of its events, or were adopted while it alone was at work.
    """
    table = _table()
    ours = _descendants(table, os.getpid())
    marked = {pid for pid in ours if table[pid][1] == tree.leader or pid in tree.strays or _is_marked(pid, tree)}
    inside = marked | _descendants(table, tree.leader)
    for pid in marked:
        inside |= _descendants(table, pid)
    inside.discard(tree.leader)
    return _living(inside, table)


def _living(pids: set[int], table: dict[int, tuple[int, int, str]]) -> list[int]:
    """Those that have not ended; the ended ones among our own children are reaped."""
    _reap([pid for pid in pids if table[pid][2] == "Z"])
    return sorted(pid for pid in pids if table[pid][2] != "Z")


def _end_all(find: Callable[[], list[int]]) -> int:
    """Stop the found together, then kill them, until none is left: a tree that keeps forking cannot outrun it."""
    found: set[int] = set()
    deadline = time.monotonic() + 5.0
    while time.monotonic() < deadline:
        left = find()
        if not left:
            break
        found.update(left)
        _kill_together(left)
        _reap(left)
    return len(found)


def _kill_together(pids: list[int]) -> None:
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _descendants(table: dict[int, tuple[int, int, str]], root: int, without: set[int] | None = None) -> set[int]:
    """Every process below `root`, leaving out those in `without` and everything below them."""
    below: dict[int, list[int]] = {}
    for pid, (parent, _, _) in table.items():
        below.setdefault(parent, []).append(pid)
    found: set[int] = set()
    pending = [root]
    while pending:
        new = [pid for pid in below.get(pending.pop(), []) if pid not in found and pid not in (without or ())]
        found.update(new)
        pending.extend(new)
    return found


def _table() -> dict[int, tuple[int, int, str]]:
    """pid → (parent, session, state) of every process."""
    table = {}
    for pid in present():
        with contextlib.suppress(OSError):
            fields = Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()
            table[pid] = (int(fields[1]), int(fields[3]), fields[0])
    return table


def _is_marked(pid: int, tree: Tree) -> bool:
    with contextlib.suppress(OSError):
        folder = Path("/proc", str(pid))
        if f"{TRIAL_VARIABLE}={tree.trial_id}".encode() in (folder / "environ").read_bytes().split(b"\0"):
            return True
        return any(str(one.readlink()) == f"pipe:[{tree.pipe}]" for one in (folder / "fd").iterdir())
    return False


def _reap(pids: list[int]) -> None:
    """Reap those that have become our own children; the others have another parent that will."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            for _ in range(100):
                if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is not None:
                    break
                time.sleep(0.001)
