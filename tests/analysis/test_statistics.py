"""The estimators against values worked out by hand or by other routines, and against simulated truth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis import statistics
from tests.benchmarks import statistics_simulation as simulation


def test_t_interval_by_hand() -> None:
    # 1, 2, 3, 4: mean 2.5, variance 5/3; the 97.5 % quantile of t with 3 degrees of freedom is 3.182446 in any table
    found = statistics.t_interval(np.array([1.0, 2.0, 3.0, 4.0]))
    half = 3.182446305284263 * math.sqrt(5 / 3) / 2
    assert found == pytest.approx((2.5, 2.5 - half, 2.5 + half, math.sqrt(5 / 3), 4), rel=1e-12)


def test_one_value_has_no_interval() -> None:
    found = statistics.t_interval(np.array([3.0]))
    assert (found.mean, found.n) == (3.0, 1)
    assert math.isnan(found.low) and math.isnan(found.high) and math.isnan(found.deviation)


def test_hodges_lehmann_by_hand() -> None:
    # Walsh averages of 1, 2, 10: 1, 1.5, 2, 5.5, 6, 10; their median is (2 + 5.5) / 2
    assert statistics.hodges_lehmann(np.array([10.0, 1.0, 2.0])) == 3.75


def test_hodges_lehmann_of_many_values_stays_near_the_exact_one() -> None:
    values = np.random.default_rng(1).normal(0, 1, 1500)
    first, second = np.triu_indices(len(values))
    exact = np.median((values[first] + values[second]) / 2)
    assert statistics.hodges_lehmann(values) == pytest.approx(exact, abs=0.005)


def test_holm_by_hand() -> None:
    # sorted: .005·4, .01·3, .03·2, then max(.06, .04·1)
    assert statistics.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_holm_leaves_untested_pairs_out_of_the_family() -> None:
    assert statistics.holm([0.02, math.nan, 0.03]) == pytest.approx([0.04, math.nan, 0.04], nan_ok=True)


def test_holm_never_exceeds_one_and_takes_an_empty_family() -> None:
    assert statistics.holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])
    assert len(statistics.holm([])) == 0


def test_paired_effect_agrees_with_scipy_tests() -> None:
    values = np.random.default_rng(3).normal(0.004, 0.01, 12)
    found = statistics.paired_effect(values, margin=0.02)
    bound = math.log(1.02)
    above = stats.ttest_1samp(values, -bound, alternative="greater").pvalue
    below = stats.ttest_1samp(values, bound, alternative="less").pvalue
    interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    assert found.p == pytest.approx(stats.ttest_1samp(values, 0).pvalue, rel=1e-9)
    assert found.p_equivalence == pytest.approx(max(above, below), rel=1e-9)
    assert (found.interval.low, found.interval.high) == pytest.approx(interval, rel=1e-9)


def test_swapping_the_sides_mirrors_the_effect() -> None:
    values = np.random.default_rng(4).normal(0.01, 0.02, 9)
    one, other = statistics.paired_effect(values), statistics.paired_effect(-values)
    assert (one.p, one.p_equivalence) == pytest.approx((other.p, other.p_equivalence))
    assert one.interval.mean == pytest.approx(-other.interval.mean)
    assert one.hodges_lehmann == pytest.approx(-other.hodges_lehmann)


@pytest.mark.parametrize(
    ("ratio", "p", "p_equivalence"),
    [(1.0, 1.0, 0.0), (1.01, 0.0, 0.0), (1.1, 0.0, 1.0)],
    ids=["same", "small", "large"],
)
def test_launches_without_any_spread_are_certain(ratio: float, p: float, p_equivalence: float) -> None:
    found = statistics.paired_effect(np.full(3, math.log(ratio)))
    assert (found.p, found.p_equivalence) == (p, p_equivalence)


@pytest.mark.parametrize(
    ("mean", "n", "p", "p_equivalence", "expected"),
    [
        (-0.1, 5, 0.01, 0.9, "FASTER"),
        (0.1, 5, 0.01, 0.9, "SLOWER"),
        (0.0, 5, 0.6, 0.01, "EQUIVALENT"),
        (0.01, 5, 0.01, 0.01, "DIFFERENT BUT SMALL"),
        (0.01, 5, 0.2, 0.2, "UNDECIDED"),
        (0.01, 5, 0.05, 0.05, "UNDECIDED"),
        (0.01, 1, math.nan, math.nan, "n = 1: no interval"),
        (math.nan, 0, math.nan, math.nan, "NO COMMON BLOCK"),
    ],
)
def test_verdicts(mean: float, n: int, p: float, p_equivalence: float, expected: str) -> None:
    assert statistics.verdict(mean, n, p, p_equivalence) == expected


def test_windows_taken_in_turn_cancel_what_both_suffer() -> None:
    # the machine doubles its step time half way; a takes 10 % longer throughout, and has one window more
    starts = np.arange(11.0)
    speed = np.where(starts < 5, 1.0, 2.0)
    first = np.stack([starts, 1.1 * speed])
    second = np.stack([starts[:10] + 0.4, speed[:10]])
    found = statistics.neighbour_log_ratio(first, second)
    assert found == pytest.approx(math.log(1.1), rel=1e-12)


def test_windows_that_did_not_take_turns_are_no_neighbours() -> None:
    first = np.array([[0.0, 1.0, 2.0], [1.0, 1.0, 1.0]])
    later = first + np.array([[50.0], [0.0]])
    assert statistics.neighbour_log_ratio(first, later) is None
    assert statistics.neighbour_log_ratio(later, first) is None


def test_simulated_studies_hold_their_error_rates() -> None:
    """A short form of tests/benchmarks/statistics_simulation.py: limits are three standard errors beyond the goals."""
    same = simulation.simulate(400)
    assert same.different <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)
    assert same.covered >= 0.917
    slower = simulation.simulate(400, slow_down=0.02)
    assert slower.different >= 0.92
    assert abs(slower.bias) <= 0.002
    assert simulation.simulate(400, disturbance=simulation.drift).different <= 0.083


def test_interval_means_more_than_the_pool_of_all_windows() -> None:
    """Two launches of 30 windows each are n = 2, however many windows they hold."""
    assert statistics.t_interval(np.array([1.0, 1.1])).n == 2


def test_a_ratio_beyond_all_floats_is_infinite() -> None:
    assert statistics.ratio(math.log(2)) == pytest.approx(2)
    assert (statistics.ratio(1000.0), statistics.ratio(-1000.0)) == (math.inf, 0.0)
    assert math.isnan(statistics.ratio(math.nan))


def test_the_interval_of_a_mean_is_students_on_the_log_scale() -> None:
    """Two launches: t(.975, 1) = 12.7062; one: no interval; no spread: no width."""
    found = statistics.factor_of_mean(np.full(3, 2.0), np.array([0.1, np.nan, 0.0]), np.array([2.0, 1.0, 5.0]))
    assert found[0] == pytest.approx(math.exp(12.706204736174694 * 0.1 / 2 / math.sqrt(2)))
    assert math.isnan(found[1]) and found[2] == 1.0
