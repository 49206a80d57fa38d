"""study.search=batch_size: the largest batch that fits a chip, found by bisection on real compilations.

Every probe is a trial of its own, with its own record. The next batch to try is where the straight line through the
plans so far meets the chip's memory, or else the middle of what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runners.records import Evidence, OutcomeKind, TrialRecord
from study.config import Condition
from study.errors import RequestError
from study.evidence import resolve

#: No search goes beyond this batch: array dimensions are 32-bit numbers to some compilers.
MOST = 2**30


@dataclass(frozen=True)
class Probe:
    """One batch tried: whether it fits, and its planned peak in bytes (None where the compiler refused it)."""

    batch_size: int
    fits: bool
    peak_bytes: int | None = None


@dataclass
class Search:
    """What is known so far: `largest` fits (0: none yet), `smallest` does not (None: none yet)."""

    usable_bytes: int
    start: int
    largest: int = 0
    smallest: int | None = None
    plans: list[Probe] = field(default_factory=list)
    _stepped: bool = False

    def learn(self, probe: Probe) -> None:
        """Take in one probe."""
        if probe.fits:
            self.largest = max(self.largest, probe.batch_size)
        else:
            self.smallest = probe.batch_size if self.smallest is None else min(self.smallest, probe.batch_size)
        if probe.peak_bytes is not None:
            self.plans.append(probe)

    def next(self) -> int | None:
        """The batch to try now; None once the largest that fits is known (or none of one example does)."""
        low, high = self.largest, self.smallest
        if low >= MOST or (high is not None and high - low <= 1):
            return None
        if low == 0 and high is None:
            return self.start
        guess, limit = self._extrapolated(), MOST + 1 if high is None else high
        if guess is not None and guess <= low and not self._stepped:
            # the plans say that this was the last: one step proves it, once
            self._stepped = True
            return low + 1
        if guess is not None and low < guess < limit:
            return guess
        return min(MOST, 2 * low) if high is None else max((low + high) // 2, low + 1)

    def _extrapolated(self) -> int | None:
        """The batch whose plan just fits, on the straight line through the two largest plans."""
        plans = sorted({one.batch_size: one for one in self.plans}.values(), key=lambda one: one.batch_size)[-2:]
        if len(plans) < 2:
            return None
        (a, b), (low, high) = [one.batch_size for one in plans], [one.peak_bytes or 0 for one in plans]
        slope = (high - low) / (b - a)
        return None if slope <= 0 else int(b + (self.usable_bytes - high) / slope)


def at_batch(condition: Condition, batch_size: int) -> Condition:
    """The same condition with another batch."""
    workload = replace(condition.workload, batch_size=batch_size)
    return replace(condition, workload=workload, settings={**condition.settings, "workload.batch_size": batch_size})


def run(condition: Condition, try_one: Callable[[Condition], TrialRecord | None]) -> Search:
    """Search from the condition's own batch. `try_one` runs a probe; None from it stops the search.

    A probe that ends in neither a plan nor out of memory stops it too: its record says why.
    """
    assert condition.device.sheet is not None, "only conditions of a named chip are searched"
    search = Search(condition.device.sheet.usable_bytes, condition.workload.batch_size)
    while (batch_size := search.next()) is not None:
        record = try_one(at_batch(condition, batch_size))
        probe = None if record is None else read_probe(record)
        if probe is None:
            break
        search.learn(probe)
    return search


def read_probe(record: TrialRecord) -> Probe | None:
    """What a record says of its batch; None where it says nothing (a crash, a missing compiler)."""
    batch_size, kind = record.spec.workload.batch_size, record.outcome.kind
    if kind is OutcomeKind.OOM:
        return Probe(batch_size, False)
    if kind is not OutcomeKind.OK or record.plan is None:
        return None
    return Probe(batch_size, record.plan.fits is not False, record.plan.peak_bytes)


def require_compiled(conditions: Sequence[Condition], search: str | None) -> None:
    """Raise `RequestError` where a search is asked for over conditions that are measured, or on no chip at all."""
    if search is None:
        return
    for one in conditions:
        if one.device.sheet is None or resolve(one.evidence, one.device) is not Evidence.COMPILED:
            raise RequestError(
                f"study.search={search} compiles, and device={one.device.kind} with evidence={one.evidence.value} is "
                "measured here or has no chip; use device=tpu or gpu, with evidence=compiled where the chip is present"
            )


def sentence(condition: Condition, found: Search) -> str:
    """The answer for a reader."""
    framework = "tf_graph" if condition.framework.compile == "graph" else condition.framework.name
    where = f"{framework}, {condition.workload.name}, chip={condition.device.chip}"
    if found.smallest is not None and found.smallest - found.largest <= 1:
        return f"{where}: the largest batch that fits is {found.largest} ({found.smallest} does not)"
    return f"{where}: no answer; {found.largest} fits, and the search stopped there"
