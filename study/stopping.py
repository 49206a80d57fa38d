"""When enough blocks have run: the precision of every primary pair's ratio, never a p value.

d = log(T_a / T_b) of the two trials of a block; with n blocks the 95 % half-width of mean(d) is t(n−1) · sd(d) / √n.
For a small d this is the half-width of the ratio as a share. Where two trials took turns, d is the median over
neighbouring windows, as the analysis takes it.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Iterable

from runners.records import OutcomeKind, TrialRecord
from study.design import Design

#: 97.5 % quantiles of Student's t for 1 … 30 degrees of freedom (any statistics table); beyond, the normal's.
T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip


def precise_enough(design: Design, records: Iterable[TrialRecord], target: float) -> bool:
    """Whether every pair, a tenant and its solo condition too, has a half-width of at most `target` (a share).

    Needs three blocks of each pair.

    A pair that never had both sides in one block (one of them always fails) cannot get more precise, and is left out.
    """
    trials = {(record.spec.condition_id, record.spec.block): record for record in records if _usable(record)}
    alone = [group for group in design.groups() if group[0].tenant is None]
    pairs = [*(pair for group in alone for pair in itertools.combinations(group, 2)), *design.slow_downs()]
    differences = [_differences(trials, a.condition_id, b.condition_id) for a, b in pairs]
    widths = [half_width(values) for values in differences if values]
    return all(width is not None and width <= target for width in widths)


def half_width(differences: list[float]) -> float | None:
    """95 % half-width of the mean of these log-ratios; None below three of them."""
    n = len(differences)
    if n < 3:
        return None
    quantile = T_975[n - 2] if n - 2 < len(T_975) else 1.960
    return quantile * statistics.stdev(differences) / math.sqrt(n)


def _usable(record: TrialRecord) -> bool:
    return record.outcome.kind is OutcomeKind.OK and bool(record.report.timings.window_seconds)


def _differences(trials: dict[tuple[str, int], TrialRecord], a: str, b: str) -> list[float]:
    blocks = sorted({block for condition, block in trials if condition == a})
    both = [(trials[a, block], trials[b, block]) for block in blocks if (b, block) in trials]
    return [log_ratio(one, other) for one, other in both]


def log_ratio(a: TrialRecord, b: TrialRecord) -> float:
    """log(T_a / T_b) of two trials that ended ok: over neighbouring windows where they took turns, else of medians.

    The rule is the analysis's (`analysis.statistics.neighbour_log_ratio`), which this module may not import: a trial
    that was repeated alone, in a later session or after its partner had ended, has windows but no neighbours.
    """
    steps = math.log(_steps(b) / _steps(a))
    if not _took_turns(a, b):
        first, second = a.report.timings.window_seconds, b.report.timings.window_seconds
        return steps + math.log(statistics.median(first) / statistics.median(second))
    return steps + statistics.median(math.log(one / other) for one, other in _neighbours(a, b))


def _took_turns(a: TrialRecord, b: TrialRecord) -> bool:
    """Whether both interleave, ran in one session (the clock is that of one boot) and overlapped in time.

    They overlapped if the middle of each one's window starts lies within the other's span.
    """
    if a.session_id != b.session_id or not (a.spec.protocol.interleave and b.spec.protocol.interleave):
        return False
    first, second = a.report.timings.window_start_seconds, b.report.timings.window_start_seconds
    if not first or not second:
        return False
    return all(other[0] <= statistics.median(one) <= other[-1] for one, other in ((first, second), (second, first)))


def _neighbours(a: TrialRecord, b: TrialRecord) -> list[tuple[float, float]]:
    """The seconds of each window of `a` beside those of the window of `b` that began nearest to it."""
    one, other = a.report.timings, b.report.timings
    windows = list(zip(other.window_start_seconds, other.window_seconds, strict=True))
    return [
        (seconds, min(windows, key=lambda window: abs(window[0] - start))[1])
        for start, seconds in zip(one.window_start_seconds, one.window_seconds, strict=True)
    ]


def _steps(record: TrialRecord) -> int:
    return record.report.timings.steps_per_window or 1
