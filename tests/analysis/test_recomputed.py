"""The published numbers, computed a second time from trials.csv alone by other means, agree to 1e-9.

Here p values and quantiles of t come from R's definition, pt(t) = 1 − I(n/(n + t²); n/2, 1/2)/2, with the incomplete
beta function and bisection; the analysis uses another routine. Everything else is written out as sums.
"""

from __future__ import annotations

import csv
import math
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from scipy import special, stats

from analysis import statistics
from analysis.load import read_journals
from analysis.tables import build_tables, write_tables
from tests.analysis import records_factory as factory

CLOSE = 1e-9
Key = tuple[str, str, str]


def upper_tail(t: float, freedom: float) -> float:
    tail = float(special.betainc(freedom / 2, 0.5, freedom / (freedom + t * t))) / 2
    return tail if t >= 0 else 1 - tail


def quantile(p: float, freedom: float) -> float:
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if upper_tail(middle, freedom) > 1 - p else (low, middle)
    return (low + high) / 2


def adjusted(p_values: list[float]) -> list[float]:
    """Holm by its definition: the largest of (m − rank + 1) × p over all ranks up to one's own."""
    ordered = sorted(p_values)
    m = len(ordered)
    return [min(1.0, max((m - k) * q for k, q in enumerate(ordered) if q <= p)) for p in p_values]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3 frameworks × 2 sizes × 7 blocks, lognormal times, one failure."""
    chance = np.random.default_rng(11)
    conditions = [
        factory.condition(name, workload__batch_size=size) for size in (8, 64) for name in ("jax", "tf", "tf_graph")
    ]
    times = 0.004 * np.exp(chance.normal(0.0, 0.03, (len(conditions), 7))) * np.array([1, 1.02, 1.3] * 2)[:, None]
    host = 300 + chance.normal(0.0, 2.0, times.shape)
    trials = [
        factory.trial(one, b, float(times[n, b]), outcome="oom" if (n, b) == (1, 3) else "ok", host_mib=host[n, b])
        for b in range(7)
        for n, one in enumerate(conditions)
    ]
    folder = factory.write(tmp_path_factory.mktemp("published") / "s", factory.session(conditions, 7), *trials)
    journals = read_journals([folder])
    write_tables(journals, build_tables(journals, 0.02), folder)
    return folder


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def launches(study: Path) -> dict[Key, dict[int, dict[str, str]]]:
    """(framework, compile, batch size) → block → row of trials.csv, ok trials only."""
    found: dict[Key, dict[int, dict[str, str]]] = defaultdict(dict)
    for row in rows(study / "trials.csv"):
        if row["outcome"] == "ok":
            found[row["framework"], row["compile"], row["batch_size"]][int(row["block"])] = row
    return found


def test_conditions(study: Path) -> None:
    published = rows(study / "tables" / "conditions.csv")
    assert len(published) == 6
    for row in published:
        trials = launches(study)[row["framework"], row["compile"], row["batch_size"]].values()
        seconds = [float(trial["step_seconds"]) for trial in trials]
        n = len(seconds)
        mean = math.fsum(seconds) / n
        error = math.sqrt(math.fsum((x - mean) ** 2 for x in seconds) / (n - 1) / n)
        factor = math.exp(quantile(0.975, n - 1) * error / mean)
        rates = [float(trial["examples_per_second"]) for trial in trials]
        peaks = sorted(int(trial["host_peak_above_baseline_bytes"]) for trial in trials)
        assert int(row["launches_count"]) == n
        assert float(row["step_seconds_mean"]) == pytest.approx(mean, rel=CLOSE)
        assert float(row["step_seconds_low"]) == pytest.approx(mean / factor, rel=CLOSE)
        assert float(row["step_seconds_high"]) == pytest.approx(mean * factor, rel=CLOSE)
        harmonic = n / math.fsum(1 / rate for rate in rates)
        assert float(row["examples_per_second_low"]) == pytest.approx(harmonic / factor, rel=CLOSE)
        assert float(row["examples_per_second_high"]) == pytest.approx(harmonic * factor, rel=CLOSE)
        assert float(row["examples_per_second_harmonic_mean"]) == pytest.approx(harmonic, rel=CLOSE)
        assert float(row["host_peak_above_baseline_median_bytes"]) == pytest.approx(
            (peaks[(n - 1) // 2] + peaks[n // 2]) / 2, rel=CLOSE
        )


def log_ratios(study: Path, row: dict[str, str]) -> list[float]:
    names = {"jax": ("jax", "jit"), "tf": ("tf", "xla"), "tf_graph": ("tf", "graph")}
    size = row["cell"].removeprefix("batch_size ")
    first, second = (launches(study)[*names[row[f"level_{side}"]], size] for side in ("a", "b"))
    common = sorted(set(first) & set(second))
    return [math.log(float(first[b]["step_seconds"]) / float(second[b]["step_seconds"])) for b in common]


def test_pairs(study: Path) -> None:
    published = rows(study / "tables" / "pairs.csv")
    assert len(published) == 6
    p_values, p_equal = [], []
    for row in published:
        d = log_ratios(study, row)
        n = len(d)
        mean = math.fsum(d) / n
        deviation = math.sqrt(math.fsum((x - mean) ** 2 for x in d) / (n - 1))
        error = deviation / math.sqrt(n)
        half = quantile(0.975, n - 1) * error
        walsh = sorted((d[i] + d[j]) / 2 for i in range(n) for j in range(i, n))
        middle = (walsh[(len(walsh) - 1) // 2] + walsh[len(walsh) // 2]) / 2
        p_values.append(2 * upper_tail(abs(mean) / error, n - 1))
        p_equal.append(max(upper_tail((math.log(1.02) + sign * mean) / error, n - 1) for sign in (1, -1)))
        assert int(row["blocks_count"]) == n
        assert float(row["time_ratio"]) == pytest.approx(math.exp(mean), rel=CLOSE)
        assert float(row["time_ratio_low"]) == pytest.approx(math.exp(mean - half), rel=CLOSE)
        assert float(row["time_ratio_high"]) == pytest.approx(math.exp(mean + half), rel=CLOSE)
        assert float(row["hodges_lehmann_ratio"]) == pytest.approx(math.exp(middle), rel=CLOSE)
        assert float(row["paired_sd_log"]) == pytest.approx(deviation, rel=CLOSE)
    for name, found in (("p_value", p_values), ("equivalence_p_value", p_equal)):
        assert [float(row[name]) for row in published] == pytest.approx(found, rel=CLOSE, abs=1e-15)
        assert [float(row[f"{name}_holm"]) for row in published] == pytest.approx(adjusted(found), rel=CLOSE, abs=1e-15)


def test_scipys_own_tests_say_the_same(study: Path) -> None:
    for row in rows(study / "tables" / "pairs.csv"):
        d = log_ratios(study, row)
        result = stats.ttest_1samp(d, 0.0)
        interval = result.confidence_interval(0.95)
        assert float(row["p_value"]) == pytest.approx(float(result.pvalue), rel=CLOSE)
        assert float(row["time_ratio_low"]) == pytest.approx(math.exp(float(interval.low)), rel=CLOSE)


def test_welch_against_scipy() -> None:
    chance = np.random.default_rng(3)
    one, other = chance.normal(0.0, 0.02, 5), chance.normal(0.03, 0.05, 9)
    found = statistics.welch(statistics.t_interval(one), statistics.t_interval(other))
    result = stats.ttest_ind(other, one, equal_var=False)
    interval = result.confidence_interval(0.95)
    assert found.mean == pytest.approx(float(other.mean() - one.mean()), rel=CLOSE)
    assert (found.low, found.high) == pytest.approx((float(interval.low), float(interval.high)), rel=CLOSE)
    assert found.p == pytest.approx(float(result.pvalue), rel=CLOSE)
    beyond = stats.ttest_ind(other - math.log(1.02), one, equal_var=False, alternative="greater")
    assert found.p_above == pytest.approx(float(beyond.pvalue), rel=CLOSE)


def test_welch_without_any_spread_is_certain() -> None:
    one, other = (statistics.t_interval(np.full(3, value)) for value in (0.0, 0.1))
    found = statistics.welch(one, other)
    assert max(found.p, found.p_above) < 1e-12 and found.p_equivalence == 1.0
    same = statistics.welch(one, one)
    assert (same.p, same.p_equivalence, same.p_above) == (1.0, 0.0, 1.0)
