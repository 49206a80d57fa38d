"""`python -m runners EVENTS_FD CONTROL_FD`: one trial in a process of its own. Started by the study, not by hand."""

from __future__ import annotations

import os
import sys

from runners.channel import Channel
from runners.lifeline import die_with_parent
from runners.lines import RecordError
from runners.trial import run_trial

USAGE = """usage: python -m runners EVENTS_FD CONTROL_FD
Both are numbers of inherited, open file descriptors: events are written to the first, the trial's spec is read from the
second. `python -m study` starts this process; to run one trial by hand, use `python -m study framework=jax`."""


def main(arguments: list[str]) -> int:
    """Exit status: 0 the trial ended ok, 1 it failed (the events say how), 2 the call itself is wrong."""
    try:
        events_fd, control_fd = (int(argument) for argument in arguments)
        os.fstat(events_fd)
        os.fstat(control_fd)
    except (ValueError, OSError) as error:
        print(f"{USAGE}\nnot two open descriptors: {arguments} ({error})", file=sys.stderr)
        return 2
    die_with_parent()
    channel = Channel(events_fd, control_fd)
    try:
        spec = channel.receive_spec()
    except RecordError as error:
        print(f"the control line holds no trial spec: {error}", file=sys.stderr)
        return 2
    return run_trial(spec, channel)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
