"""The search for the largest batch, on memory that is known: it must be exact, whatever the plan looks like."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from runners.records import Outcome, OutcomeKind, Quantity
from study import devices
from study.errors import RequestError
from study.schema import Allocation, AllocationEntry
from study.search import MOST, Probe, Search, probe_of, read_probe, require_bounded
from tests.study.samples import condition, record


def found(peak: Callable[[int], int], usable: int | None, start: int, plans: bool = True) -> tuple[Search, list[int]]:
    search, tried = Search(usable, start), []
    while (batch := search.next()) is not None:
        assert batch not in tried and 1 <= batch <= MOST
        tried.append(batch)
        fits = peak(batch) <= (usable or 50_000)
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


def test_without_a_known_bound_the_peaks_are_of_no_use_and_no_harm() -> None:
    search, tried = found(PEAKS["line"], None, 8)
    assert search.largest == (50_000 - 1000) // 37
    assert tried == found(PEAKS["line"], 50_000, 8, plans=False)[1]


def test_a_pool_that_holds_less_than_its_cap_is_found_out() -> None:
    """The peaks tell of room up to the cap; regions that cannot be used make the pool end at 40,000 of 50,000."""
    search = Search(50_000, 8)
    while (batch := search.next()) is not None:
        peak = 1000 + 37 * batch
        search.learn(Probe(batch, peak <= 40_000, peak if peak <= 40_000 else None))
    assert (search.largest, search.smallest) == (1054, 1055)


def test_nothing_fits() -> None:
    search, tried = found(lambda _: 10**9, 50_000, 4)
    assert (search.largest, search.smallest) == (0, 1)
    assert tried == [4, 2, 1]


def test_everything_fits_up_to_the_bound() -> None:
    search, tried = found(lambda _: 1, 50_000, 2**20)
    assert (search.largest, search.smallest) == (MOST, None) and len(tried) <= 12


CAPPED = AllocationEntry(capped_environment={"LIMIT": "{limit_mib}"})


def test_a_probe_says_that_it_is_one() -> None:
    asked = condition(
        extra={"workload.batch_size": 8, "protocol": "smoke", "protocol.windows": 3, "protocol.start": "zygote"}
    )
    probe = probe_of(asked, 21, seed=0)
    assert (probe.search, probe.protocol.name, probe.protocol.windows, probe.protocol.interleave) == (
        "batch_size", "probe", 0, False,
    )  # fmt: skip
    assert probe.workload.batch_size == probe.settings["workload.batch_size"] == 21
    assert (probe.settings["protocol"], probe.settings["protocol.windows"]) == ("probe", 0)
    assert probe.settings["protocol.start"] == "zygote"
    assert probe.protocol.deadline_seconds == asked.protocol.deadline_seconds
    assert probe.trial_id != probe_of(asked, 22, seed=0).trial_id != probe_of(asked, 22, seed=1).trial_id


def test_what_a_measured_probe_answers() -> None:
    ran = record(0, search="batch_size")
    ran.report.memory["device_live_peak"] = Quantity(700, "counted")
    assert read_probe(ran) == Probe(8, True, 700)
    # where the host ran out before the cap nothing is known of the batch
    for reason, expected in (("device", Probe(8, False)), ("host", None)):
        assert read_probe(replace(ran, outcome=Outcome(OutcomeKind.OOM, reason=reason))) == expected
    assert read_probe(replace(ran, outcome=Outcome(OutcomeKind.CRASH))) is None


def test_a_search_without_a_cap_is_refused() -> None:
    require_bounded([condition()], None)
    with pytest.raises(RequestError, match=r"framework=fake with allocation=default .* has no cap") as refused:
        require_bounded([condition()], "batch_size")
    assert "allocation.limit_bytes" in str(refused.value) and "evidence=compiled" in str(refused.value)


def test_a_cap_that_leaves_no_room_for_the_host_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "total_memory_bytes", lambda device: 2**30 if device == "cpu" else None)
    within = condition(allocation=Allocation("growth", limit_bytes=2**29), entry=CAPPED)
    require_bounded([within], "batch_size")
    beyond = condition(allocation=Allocation("growth", limit_bytes=2**29 + 1), entry=CAPPED)
    with pytest.raises(RequestError, match="536870913 bytes, more than half of this machine's 1073741824"):
        require_bounded([beyond], "batch_size")


def test_a_condition_that_is_never_launched_needs_no_cap() -> None:
    nowhere = condition(entry=AllocationEntry(not_applicable="no pool here"), allocation=Allocation("growth"))
    require_bounded([nowhere], "batch_size")
