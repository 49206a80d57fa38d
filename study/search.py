"""study.search=batch_size: the largest batch that fits, found by bisection on real compilations or real processes.

Every probe is a trial of its own, with its own record: compiled for the chip, or run for a few steps in a fresh
process under the condition's cap, where out of memory is an answer. The next batch to try is where the straight line
through the peaks so far meets the memory there is, or else the middle of what is left. A pool that fragments may refuse
a batch and grant a larger one; what is found is a batch that fits and whose successor does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from runners.records import Evidence, OutcomeKind, TrialRecord
from runners.specs import ProtocolSpec, TrialSpec
from study import devices
from study.applicability import evidence, without_launch
from study.config import Condition
from study.design import limit_bytes, trial
from study.errors import RequestError
from study.progress import framework_name

#: No search goes beyond this batch: array dimensions are 32-bit numbers to some compilers.
MOST = 2**30
#: The largest cap under which is searched on a CPU, as a share of the physical memory: inputs are made in NumPy beside
#: the framework's pool, and a batch that just does not fit may be twice the one that does.
MOST_SHARE = 0.5
#: What a probe that runs does instead of its condition's protocol: a few steps, no calibration and no window.
PROBE_STEPS = 3


@dataclass(frozen=True)
class Probe:
    """One batch tried: whether it fits, and its peak in bytes, planned or measured (None: it did not get so far)."""

    batch_size: int
    fits: bool
    peak_bytes: int | None = None


@dataclass
class Search:
    """What is known so far: `largest` fits (0: none yet), `smallest` does not (None: none yet).

    `usable_bytes` is the memory there is (None: it cannot be told, and every next batch is found by halving).
    """

    usable_bytes: int | None
    start: int
    largest: int = 0
    smallest: int | None = None
    peaks: list[Probe] = field(default_factory=list)
    _stepped: bool = False

    def learn(self, probe: Probe) -> None:
        """Take in one probe."""
        if probe.fits:
            self.largest = max(self.largest, probe.batch_size)
        else:
            self.smallest = probe.batch_size if self.smallest is None else min(self.smallest, probe.batch_size)
        if probe.peak_bytes is not None:
            self.peaks.append(probe)

    def next(self) -> int | None:
        """The batch to try now; None once the largest that fits is known (or none of one example does)."""
        low, high = self.largest, self.smallest
        if low >= MOST or (high is not None and high - low <= 1):
            return None
        if low == 0 and high is None:
            return self.start
        guess, limit = self._extrapolated(), MOST + 1 if high is None else high
        if guess is not None and guess <= low and not self._stepped:
            # the peaks say that this was the last: one step proves it, once
            self._stepped = True
            return low + 1
        if guess is not None and low < guess < limit:
            return guess
        return min(MOST, 2 * low) if high is None else max((low + high) // 2, low + 1)

    def _extrapolated(self) -> int | None:
        """The batch whose peak just fits, on the straight line through the two largest peaks."""
        known = sorted({one.batch_size: one for one in self.peaks}.values(), key=lambda one: one.batch_size)[-2:]
        if len(known) < 2 or self.usable_bytes is None:
            return None
        (a, b), (low, high) = [one.batch_size for one in known], [one.peak_bytes or 0 for one in known]
        slope = (high - low) / (b - a)
        return None if slope <= 0 else int(b + (self.usable_bytes - high) / slope)


def at_batch(condition: Condition, batch_size: int) -> Condition:
    """The same condition with another batch."""
    workload = replace(condition.workload, batch_size=batch_size)
    return replace(condition, workload=workload, settings={**condition.settings, "workload.batch_size": batch_size})


def probe_of(condition: Condition, batch_size: int, seed: int) -> TrialSpec:
    """The trial that tries one batch: the compiler's whole answer, or a few steps in a process of its own.

    The latter says so in its settings (protocol=probe) and in `TrialSpec.search`: it has no window and no step time.
    """
    found = at_batch(condition, batch_size)
    if evidence(condition) is Evidence.COMPILED:
        return trial(found, 0, 0, seed)
    protocol = _few_steps(found.protocol)
    changed = {"protocol": protocol.name}
    for key in (one for one in found.settings if one.startswith("protocol.") and one != "protocol.start"):
        changed[key] = getattr(protocol, key.partition(".")[2])
    probe = replace(found, protocol=protocol, settings={**found.settings, **changed})
    return replace(trial(probe, 0, 0, seed), search="batch_size")


def _few_steps(protocol: ProtocolSpec) -> ProtocolSpec:
    return replace(
        protocol,
        name="probe",
        warmup_steps=PROBE_STEPS,
        warmup_seconds=0.0,
        warmup_max_steps=PROBE_STEPS,
        windows=0,
        window_seconds=0.0,
        match_steps=1,
        interleave=False,
    )


def run(condition: Condition, try_one: Callable[[int], TrialRecord | None]) -> Search:
    """Search from the condition's own batch. `try_one` runs the probe of a batch; None from it stops the search.

    A probe that ends in neither an answer nor out of memory stops it too: its record says why.
    """
    search = Search(usable_bytes(condition), condition.workload.batch_size)
    while (batch_size := search.next()) is not None:
        record = try_one(batch_size)
        probe = None if record is None else read_probe(record)
        if probe is None:
            break
        search.learn(probe)
    return search


def usable_bytes(condition: Condition) -> int | None:
    """The memory that bounds the batch: the chip's, the cap, or the whole device's; None where it cannot be told."""
    if condition.device.sheet is not None:
        return condition.device.sheet.usable_bytes
    return limit_bytes(condition) or devices.total_memory_bytes(condition.device.kind)


def read_probe(record: TrialRecord) -> Probe | None:
    """What a record says of its batch; None where it says nothing (a crash, a missing compiler).

    Where the host's memory ended instead of the cap's or the chip's, nothing is known of the batch either.
    """
    batch_size, outcome = record.spec.workload.batch_size, record.outcome
    if outcome.kind is OutcomeKind.OOM:
        return None if outcome.reason == "host" else Probe(batch_size, False)
    if outcome.kind is not OutcomeKind.OK:
        return None
    if record.plan is not None:
        return Probe(batch_size, record.plan.fits is not False, record.plan.peak_bytes)
    if record.spec.search is None:
        return None
    live = record.report.memory.get("device_live_peak")
    return Probe(batch_size, True, None if live is None else live.value)


def require_bounded(conditions: Sequence[Condition], search: str | None) -> None:
    """Raise `RequestError` where a search is asked for over conditions whose memory nothing bounds but the machine."""
    if search is None:
        return
    for one in conditions:
        if without_launch(one) is None and evidence(one) is Evidence.MEASURED and one.device.kind == "cpu":
            _require_cap(one, search)


def _require_cap(condition: Condition, search: str) -> None:
    name, mode, limit = condition.framework.name, condition.allocation.name, limit_bytes(condition)
    where = f"study.search={search}: framework={name} with allocation={mode} on device=cpu"
    instead = (
        "Search TensorFlow under a cap (framework=tf allocation=growth allocation.limit_bytes=134217728), "
        "or what a chip's compiler plans (device=tpu or device=gpu, evidence=compiled)"
    )
    if limit is None:
        raise RequestError(f"{where} has no cap: the search would go on until the host's memory is gone. {instead}")
    total = devices.total_memory_bytes("cpu")
    if total is not None and limit > MOST_SHARE * total:
        raise RequestError(
            f"{where} has a cap of {limit} bytes, more than half of this machine's {total}: inputs are made beside the "
            "framework's pool, and the host would run out first; lower allocation.limit_bytes or allocation.fraction"
        )


def sentence(condition: Condition, found: Search) -> str:
    """The answer for a reader."""
    framework = framework_name(condition.framework.name, condition.framework.compile)
    where = f"{framework}, {condition.workload.name}, {_bound(condition)}"
    if found.smallest is not None and found.smallest - found.largest <= 1:
        return f"{where}: the largest batch that fits is {found.largest} ({found.smallest} does not)"
    return f"{where}: no answer; {found.largest} fits, and the search stopped there"


def _bound(condition: Condition) -> str:
    """What bounds the batch, in words."""
    if evidence(condition) is Evidence.COMPILED:
        return f"chip={condition.device.chip}"
    limit = limit_bytes(condition)
    return f"allocation={condition.allocation.name}" + ("" if limit is None else f", capped at {limit} bytes")
