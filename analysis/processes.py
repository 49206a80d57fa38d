"""How many processes an analysis may use: one, unless its program says that it can be started afresh.

A further process imports the program anew, which runs a script that has no guard a second time.
"""

from __future__ import annotations

import os

_allowed = False


def allow() -> None:
    """The program that calls this has a guard (`if __name__ == "__main__"`)."""
    global _allowed
    _allowed = True


def at_most(bound: int) -> int:
    """As many as there are processors for it, `bound` at most; 1 where only one is allowed."""
    return min(len(os.sched_getaffinity(0)), bound) if _allowed else 1
