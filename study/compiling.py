"""How many compilations may run at the same time: each keeps two cores busy and takes up to 2.5 GB."""

from __future__ import annotations

import os

import psutil

CORES_EACH = 2
#: As seen for training steps of published size.
BYTES_EACH = 2_500_000_000


def at_once() -> int:
    """By the cores that this process may use and the memory that is available now; at least one."""
    return limit(len(os.sched_getaffinity(0)), int(psutil.virtual_memory().available))


def limit(cores: int, available_bytes: int) -> int:
    """The same for so many cores and bytes."""
    return max(1, min(cores // CORES_EACH, available_bytes // BYTES_EACH))
