"""A tenant that has measured goes on stepping, so that the windows of the others have its company to their end."""

from __future__ import annotations

from runners.channel import Channel
from runners.records import Barrier, TrialReport
from runners.stepper import Stepper


def keep(stepper: Stepper, channel: Channel, report: TrialReport) -> None:
    """Windows like the measured ones, of which only their number is kept, until all tenants have measured or ended."""
    channel.report(report)
    channel.arrive(Barrier.END)
    windows = 0
    while not channel.released():
        stepper.window(report.timings.steps_per_window or 1)
        windows += 1
    report.counters["company_windows"] = windows
