"""Which device a scheduler gave to this worker: the variables by which it says so, and trials are then to inherit.

Slurm names GPUs in CUDA_VISIBLE_DEVICES (its gres documentation); Ray does too, and names TPU chips in
TPU_VISIBLE_CHIPS with the bounds that a part of a host needs (ray/_private/accelerators). Outside a worker nobody has
assigned anything, and a trial inherits none of them.
"""

from __future__ import annotations

import os

VARIABLES = (
    "CUDA_VISIBLE_DEVICES", "TPU_VISIBLE_CHIPS", "TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS",
    "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_PROCESS_BOUNDS",
)  # fmt: skip

_kept: set[str] = set()


def take_over() -> None:
    """This process is a worker: what it finds in its environment now was set for it."""
    _kept.update(name for name in VARIABLES if name in os.environ)


def kept(name: str) -> bool:
    """Whether trials inherit this variable."""
    return name in _kept
