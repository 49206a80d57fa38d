"""The waterfall of every trial: each gap between two counters, and the plan of the same step beside it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pandas as pd
import pytest

from analysis.figures import gallery, waterfall
from analysis.load import read_journals
from analysis.tables import Tables, build_tables
from analysis.waterfall import gaps
from runners.records import Plan, Quantity, TrialRecord
from tests.analysis import records_factory as factory

MIB = 2**20


def with_memory(record: TrialRecord, **mebibytes: int) -> TrialRecord:
    """The record with these quantities, in MiB."""
    added = {name: Quantity(value * MIB, "a counter") for name, value in mebibytes.items()}
    return factory.changed(record, memory={**record.report.memory, **added})


def tables_of(folder: Path, conditions: list[dict[str, object]], *trials: TrialRecord) -> Tables:
    return build_tables(read_journals([factory.write(folder, factory.session(conditions, 1), *trials)]), 0.02)


def gaps_of(**counters: int | None) -> dict[str, int | None]:
    """The gaps of one trial."""
    columns = {name: pd.Series([value], dtype="Int64") for name, value in counters.items()}
    found = {name: column.iloc[0] for name, column in gaps(**columns).items()}
    return {name: None if pd.isna(value) else int(value) for name, value in found.items()}


def test_every_gap_has_a_name() -> None:
    assert gaps_of(live=30, pool=75, process=90, device=130, fragmented=5) == {
        "fragmentation_bytes": 5,
        "pool_slack_bytes": 40,
        "context_bytes": 15,
        "other_processes_bytes": 40,
    }


def test_a_part_that_exceeds_its_whole_fills_it() -> None:
    """Peaks need not coincide: what is fragmented at the end may be more than the slack at the peak."""
    assert gaps_of(live=30, pool=40, process=35, device=20, fragmented=25) == {
        "fragmentation_bytes": 10,
        "pool_slack_bytes": 0,
        "context_bytes": 0,
        "other_processes_bytes": 0,
    }


@pytest.mark.parametrize(
    ("missing", "gone"),
    [
        ("live", ["fragmentation_bytes", "pool_slack_bytes"]),
        ("process", ["context_bytes", "other_processes_bytes"]),
        ("device", ["other_processes_bytes"]),
        ("fragmented", ["fragmentation_bytes"]),
    ],
)
def test_a_gap_without_one_of_its_ends_is_missing(missing: str, gone: list[str]) -> None:
    counters: dict[str, int | None] = {"live": 30, "pool": 75, "process": 90, "device": 130, "fragmented": 5}
    found = gaps_of(**{**counters, missing: None})
    assert [name for name, value in found.items() if value is None] == gone


def test_without_a_pool_the_context_begins_at_the_arrays() -> None:
    found = gaps_of(live=30, pool=None, process=90, device=90, fragmented=None)
    assert (found["context_bytes"], found["pool_slack_bytes"], found["other_processes_bytes"]) == (60, None, 0)


def test_a_trial_on_the_cpu_reaches_from_its_arrays_to_the_machine(tmp_path: Path) -> None:
    one = factory.condition("tf")
    trial = with_memory(factory.trial(one), device_live_peak=30, device_pool_peak=64, device_total_used=4000)
    row = tables_of(tmp_path, [one], trial).waterfall.iloc[0]
    # the factory's trial: 200 MiB of imports and a peak 300 MiB above them
    assert {
        name: int(row[f"{name}_bytes"]) // MIB for name in ("live", "pool_slack", "pool", "context", "process")
    } == {
        "live": 30,
        "pool_slack": 34,
        "pool": 64,
        "context": 436,
        "process": 500,
    }
    assert row["other_processes_bytes"] == 3500 * MIB
    assert pd.isna(row["fragmentation_bytes"]) and pd.isna(row["planned_peak_bytes"])


def test_the_plan_of_the_same_step_stands_beside_all_its_allocation_modes(tmp_path: Path) -> None:
    modes = [factory.condition(allocation=mode) for mode in ("default", "jemalloc")]
    other = factory.condition(workload__batch_size=512)
    compiled = factory.condition(evidence="compiled")
    plan = dataclasses.replace(Plan(), peak_bytes=7 * MIB)
    planned = factory.trial(compiled, 0, None, plan=plan)
    tables = tables_of(tmp_path, [*modes, other, compiled], planned, *map(factory.trial, [*modes, other]))
    assert tables.waterfall["planned_peak_bytes"].tolist()[:2] == [7 * MIB, 7 * MIB]
    assert tables.waterfall["planned_peak_bytes"].isna().tolist() == [False, False, True]
    panels = {axis.get_xlabel() for axis in gallery.draw(waterfall, tables).axes}
    assert panels == {waterfall.PLANNED, waterfall.PANELS[0]}


def test_without_a_plan_there_is_no_panel_for_it(tmp_path: Path) -> None:
    one = factory.condition()
    axes = gallery.draw(waterfall, tables_of(tmp_path, [one], factory.trial(one))).axes
    assert [axis.get_xlabel() for axis in axes] == [waterfall.PANELS[0]]
