"""Running the tenants of a co-location: truly at the same time, not in turns.

They meet at three barriers (`runners.records.Barrier`): all have imported before the first opens the device, all have
warmed up before the first window, and all keep stepping until the last has measured. A barrier opens once every tenant
that is still alive has reached it, so that the death of one holds nobody up. Waiting is booked to no deadline and needs
none of its own: those waited for are at work, under their deadlines. The parent sleeps in one `poll` over all of them.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable, Sequence

from runners.records import Barrier, Evidence, OutcomeKind, Phase, Timings, TrialRecord
from runners.specs import TrialSpec
from study import processes
from study.supervise import (
    TICK_SECONDS,
    Live,
    Supervisor,
    account,
    end_tree,
    not_started,
    overdue,
    remaining,
    tell,
)

Finished = Callable[[TrialRecord], None]


class TenancySupervisor(Supervisor):
    """Runs groups of trials, in turns or alone as `Supervisor` does; tenants together, and compilers side by side."""

    _poll: select.poll
    _polled: set[int]
    _last_opening_seconds: float

    def _bring_through(self, group: Sequence[TrialSpec], finished: Finished) -> None:
        """A co-location's records are given when all of its tenants have ended: only the whole is worth keeping."""
        if group[0].evidence == Evidence.COMPILED:
            self._bring_side_by_side(group, finished)
            return
        if group[0].tenancy is None:
            super()._bring_through(group, finished)
            return
        ended: list[TrialRecord] = []
        self._last_opening_seconds = float("-inf")
        self._poll, self._polled = select.poll(), set()
        self._launch_all(group, ended.append)
        while self.live:
            self._open_barriers()
            self._wait_for_any()
            self._collect_tenants(ended.append)
        self._end_unmarked(ended)
        _say_company(ended)
        for record in ended:
            finished(record)

    def _bring_side_by_side(self, group: Sequence[TrialSpec], finished: Finished) -> None:
        """Compilations: they meet nowhere and wait for nobody."""
        self._poll, self._polled = select.poll(), set()
        self._launch_all(group, finished)
        while self.live:
            self._wait_for_any()
            self._collect_tenants(finished)

    def _launch_all(self, group: Sequence[TrialSpec], finished: Finished) -> None:
        for spec in group:
            try:
                live = self._launch(spec)
            except OSError as error:
                finished(not_started(spec, error))
                continue
            self.live.append(live)
            for handle in (live.pipes.events, live.process.pidfd):
                self._poll.register(handle, select.POLLIN)
                self._polled.add(handle)

    def _forget(self, *handles: int) -> None:
        """Poll these no longer: a closed end would wake us for ever."""
        for handle in self._polled.intersection(handles):
            self._poll.unregister(handle)
            self._polled.discard(handle)

    def _open_barriers(self) -> None:
        """Let go who waits at a barrier that everybody alive has reached."""
        reached = min(len(live.barriers) for live in self.live)
        for live in sorted(self.live, key=_number):
            if live.waits and len(live.barriers) <= reached and self._may_open(live):
                live.waits = False
                if live.barriers[-1] is Barrier.DEVICE:
                    self._last_opening_seconds = time.monotonic()
                tell(live, b"go\n")

    def _may_open(self, live: Live) -> bool:
        """Whether a stagger lets this tenant go: the one before it has placed its inputs, and long enough ago began."""
        stagger = _stagger(live)
        if not stagger or live.barriers[-1] is not Barrier.DEVICE:
            return True
        return self._seconds_to_opening(live) <= 0 and not any(_is_opening(one) for one in self.live)

    def _seconds_to_opening(self, live: Live) -> float:
        return self._last_opening_seconds + _stagger(live) - time.monotonic()

    def _wait_for_any(self) -> None:
        """Sleep until a tenant says something or ends, or the nearest deadline; book the time to those at work."""
        working = [live for live in self.live if not live.waits]
        quiet = any(live.phase is Phase.MEASURE for live in working)
        patience = self._patience(working, quiet)
        before = time.monotonic()
        ready = dict(self._poll.poll(1000 * patience))
        # no more than was waited for: when we were stopped ourselves (Ctrl-Z), nobody was late
        elapsed = min(time.monotonic() - before, patience)
        for live in working:
            account(live, elapsed)
        for live in self.live:
            if live.pipes.events in ready and not self._read(live):
                self._forget(live.pipes.events)
        for live in working:
            spoke = live.pipes.events in ready or live.process.pidfd in ready
            live.expired = None if spoke else overdue(live)
        if not quiet:
            self._watcher.tick()

    def _patience(self, working: list[Live], quiet: bool) -> float:
        bounds = [remaining(live) for live in working]
        if not quiet:
            bounds.append(TICK_SECONDS)
        staggered = [self._seconds_to_opening(live) for live in self.live if live.waits and _stagger(live)]
        return min([*bounds, *(seconds for seconds in staggered if seconds > 0)])

    def _collect_tenants(self, finished: Finished) -> None:
        for live in [one for one in self.live if one.expired is not None or one.process.ended_within(0)]:
            self._read(live)
            self._forget(live.pipes.events, live.process.pidfd)
            leftovers = end_tree(live)
            self.live.remove(live)
            finished(self._record(live, leftovers))

    def _end_unmarked(self, ended: Sequence[TrialRecord]) -> None:
        """End processes that carry no mark of their tenant; which one's they were cannot be told any more."""
        left = processes.end_orphans(set(self._before) | self._starter.pids())
        for record in ended if left else ():
            record.report.warnings.append(
                f"{left} processes outlived the co-location and were ended; whose is not known"
            )


def _number(live: Live) -> int:
    return 0 if live.spec.tenancy is None else live.spec.tenancy.tenant


def _stagger(live: Live) -> float:
    return 0.0 if live.spec.tenancy is None else live.spec.tenancy.stagger_seconds


def _is_opening(live: Live) -> bool:
    """Whether a tenant was let go to the device and has not placed its inputs yet."""
    return len(live.barriers) == 1 and not live.waits and live.phase in (Phase.IMPORT, Phase.PLACE)


def _say_company(ended: Sequence[TrialRecord]) -> None:
    """Put into every record how many of its windows had the company of all, and who was missing."""
    for record in ended:
        others = [one for one in ended if one is not record]
        record.report.counters.update(_overlap(record.report.timings, others))
        for one in others:
            if one.outcome.kind is not OutcomeKind.OK and one.spec.tenancy is not None:
                who = f"tenant {one.spec.tenancy.tenant} ({one.spec.framework.name})"
                record.report.warnings.append(f"not in whole company: {who} ended {one.outcome.kind}")


def _overlap(timings: Timings, others: Sequence[TrialRecord]) -> dict[str, float]:
    """The number of windows that lie within the spans of all others; none for a trial without windows."""
    if not timings.window_seconds:
        return {}
    spans = [span(one.report.timings) for one in others]
    windows = zip(timings.window_start_seconds, timings.window_seconds, strict=True)
    within = [all(one and one[0] <= start and start + seconds <= one[1] for one in spans) for start, seconds in windows]
    return {"overlapped_windows": sum(within)}


def span(timings: Timings) -> tuple[float, float] | None:
    """From when to when a tenant stepped without a pause: first window to teardown. None where it did not get there."""
    end = timings.phase_start_seconds.get(Phase.TEARDOWN.value)
    return None if end is None or not timings.window_start_seconds else (timings.window_start_seconds[0], end)
