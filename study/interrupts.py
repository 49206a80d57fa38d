"""SIGINT, SIGTERM and SIGHUP as one exception, from the first moment of a study to its last."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from study.errors import EXIT_INTERRUPTED

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(KeyboardInterrupt):
    """A signal reached the study. `exit_status` is 130 for SIGINT, 128 + the number for any other."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_status = EXIT_INTERRUPTED if number == signal.SIGINT else 128 + number


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Turn the first signal into `Interrupted`; further ones are ignored, so that what must be ended is ended."""

    def strike(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    before = {number: signal.signal(number, strike) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
