"""The search for the largest batch, on memory that is known: it must be exact, whatever the plan looks like."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from study.search import MOST, Probe, Search


def found(peak: Callable[[int], int], usable: int, start: int, plans: bool = True) -> tuple[Search, list[int]]:
    search, tried = Search(usable, start), []
    while (batch := search.next()) is not None:
        assert batch not in tried and 1 <= batch <= MOST
        tried.append(batch)
        fits = peak(batch) <= usable
        search.learn(Probe(batch, fits, peak(batch) if fits and plans else None))
    return search, tried


PEAKS = {
    "line": lambda n: 1000 + 37 * n,
    "steps of eight": lambda n: 1000 + 37 * 8 * -(-n // 8),
    "bent": lambda n: 1000 + 10 * n + n * n // 100,
    "jump": lambda n: 1000 + n + (50_000 if n > 300 else 0),
}


@pytest.mark.parametrize("start", [1, 8, 100_000])
@pytest.mark.parametrize("name", PEAKS)
def test_the_largest_batch_is_found_exactly(name: str, start: int) -> None:
    usable, peak = 50_000, PEAKS[name]
    largest = max(n for n in range(60_000) if n == 0 or peak(n) <= usable)
    search, tried = found(peak, usable, start)
    assert (search.largest, search.smallest) == (largest, largest + 1)
    assert len(tried) <= 30


def test_a_straight_plan_needs_few_probes() -> None:
    _, tried = found(PEAKS["line"], 50_000, 8)
    assert len(tried) <= 4, tried


def test_without_plans_it_is_plain_bisection() -> None:
    search, tried = found(PEAKS["line"], 50_000, 8, plans=False)
    assert search.largest == (50_000 - 1000) // 37
    assert len(tried) <= 2 * 18


def test_nothing_fits() -> None:
    search, tried = found(lambda _: 10**9, 50_000, 4)
    assert (search.largest, search.smallest) == (0, 1)
    assert tried == [4, 2, 1]


def test_everything_fits_up_to_the_bound() -> None:
    search, tried = found(lambda _: 1, 50_000, 2**20)
    assert (search.largest, search.smallest) == (MOST, None) and len(tried) <= 12
