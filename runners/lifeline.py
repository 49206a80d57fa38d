"""A trial ends with the study that started it, even when the study is killed and can end nothing itself."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Ask the kernel for SIGKILL when the parent ends (prctl(2), PR_SET_PDEATHSIG).

    After a fork by a zygote this must be called once the study has become the parent, because the setting is about
    whoever is the parent then and later (a subreaper counts).

    Raises:
        OSError: the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() == 1:
        # the study was gone before the kernel knew that we care
        os._exit(1)
