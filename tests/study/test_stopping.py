"""The stopping rule pairs what the analysis pairs: neighbouring windows of trials that took turns, and no others."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from analysis import statistics
from runners.records import TrialRecord
from study.stopping import log_ratio
from tests.study.samples import PROTOCOL, record


def trial(starts: list[float], seconds: list[float], session: str = "a", interleave: bool = True) -> TrialRecord:
    """An ok trial with these windows, one step each."""
    protocol = replace(PROTOCOL, interleave=interleave)
    made = record(0, windows=tuple(seconds), protocol=protocol)
    made.report.timings.window_start_seconds = starts
    return replace(made, session_id=session)


#: The machine is twice as slow from the third window on; the first trial takes 10 % longer throughout.
FIRST = ([0.0, 1.0, 2.0, 3.0, 4.0], [0.11, 0.11, 0.22, 0.22, 0.22])
SECOND = ([0.5, 1.5, 2.5, 3.5, 4.5], [0.1, 0.1, 0.2, 0.2, 0.2])


def test_neighbouring_windows_cancel_what_both_suffer() -> None:
    # the second began late and runs one window longer, so that windows of one number lie a window apart
    later = ([1.5, 2.5, 3.5, 4.5, 5.5], [0.1, 0.2, 0.2, 0.2, 0.2])
    assert log_ratio(trial(*FIRST), trial(*SECOND)) == pytest.approx(math.log(1.1), rel=1e-12)
    assert log_ratio(trial(*FIRST), trial(*later)) == pytest.approx(math.log(1.1), rel=1e-12)


def test_a_trial_that_was_repeated_alone_is_compared_by_its_median() -> None:
    # by number the windows would give log(1.1); the medians are 0.22 and 0.1
    alone = ([start + 60 for start in SECOND[0]], [0.1] * 5)
    for other in (trial(*alone), trial(*SECOND, session="b"), trial(*SECOND, interleave=False)):
        median = 0.1 if other.report.timings.window_seconds == [0.1] * 5 else 0.2
        assert log_ratio(trial(*FIRST), other) == pytest.approx(math.log(0.22 / median), rel=1e-12)
        assert log_ratio(other, trial(*FIRST)) == pytest.approx(math.log(median / 0.22), rel=1e-12)


def test_the_rule_is_the_analysis_s() -> None:
    """Random windows that overlap more or less: the same ratio to rounding, and the same refusals."""
    random = np.random.default_rng(5)
    turns = 0
    for _ in range(500):
        sides = []
        for _ in range(2):
            count = int(random.integers(1, 12))
            starts = random.uniform(0, 4) + np.cumsum(random.uniform(0.1, 1.0, count))
            sides.append((starts, random.uniform(0.05, 0.2, count)))
        expected = statistics.neighbour_log_ratio(*(np.stack(side) for side in sides))
        turns += expected is not None
        if expected is None:
            expected = math.log(float(np.median(sides[0][1])) / float(np.median(sides[1][1])))
        one, other = (trial(list(map(float, starts)), list(map(float, seconds))) for starts, seconds in sides)
        assert log_ratio(one, other) == pytest.approx(expected, rel=1e-9, abs=1e-12)
    assert 100 < turns < 400
