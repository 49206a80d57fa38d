"""The largest batch from measured probes: what counts as an answer, and that no probe is compared with a trial."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.text import Text

from analysis import capacity
from analysis.figures import capacity_measured, gallery
from analysis.frames import records
from analysis.load import read_journals
from analysis.pipeline import analyse
from analysis.tables import Tables, build_tables
from runners.records import OutcomeKind, Plan, TrialRecord
from tests.analysis import records_factory as factory

MIB = 2**20


def probe(framework: str, batch: int, outcome: str = "ok", reason: str = "", **changes: Any) -> TrialRecord:
    """A probe under a cap of 64 MiB; a refused one asked for 16 MiB."""
    settings = factory.condition(
        framework, allocation="growth", allocation__limit_bytes=64 * MIB, workload__batch_size=batch, protocol="probe",
        **changes,
    )  # fmt: skip
    live = batch if outcome == "ok" else None
    record = factory.trial(settings, 0, None, outcome=outcome, reason=reason, device_mib=live, phase="teardown")
    asked = replace(record.outcome, bytes_asked=16 * MIB if outcome == "oom" else None)
    return replace(record, spec=replace(record.spec, search="batch_size"), outcome=asked)


def measured(framework: str, block: int) -> TrialRecord:
    return factory.trial(
        factory.condition(framework, allocation="growth", allocation__limit_bytes=64 * MIB), block, 0.01
    )


def tables_of(folder: Path, *trials: TrialRecord) -> Tables:
    asked = [one for one in trials if one.spec.search is None]
    settings = [{key: value for key, value in one.spec.settings.items() if key != "replicate"} for one in asked]
    return build_tables(read_journals([factory.write(folder / "s", factory.session(settings, 1), *trials)]), 0.02)


PROBES = [
    *(probe("tf", batch) for batch in (8, 16, 48, 60)),
    *(probe("tf", batch, "oom", "device") for batch in (61, 96)),
    *(probe("tf_graph", batch) for batch in (8, 16)),
    probe("tf_graph", 32, "oom", "device"),
]


def test_the_largest_batch_of_every_framework(tmp_path: Path) -> None:
    table = tables_of(tmp_path, measured("tf", 0), measured("tf_graph", 0), *PROBES).capacity
    names = ["label", "evidence", "allocation", "largest_batch_size", "smallest_refused_batch_size", "probes_count"]
    assert table[names].to_numpy().tolist() == [
        ["tf", "measured", "growth", 60, 61, 6],
        ["tf_graph", "measured", "growth", 16, 32, 3],
    ]
    assert table["limit_bytes"].tolist() == [64 * MIB] * 2
    assert table["device_live_peak_bytes"].tolist() == [60 * MIB, 16 * MIB]
    assert table["refused_bytes"].tolist() == [16 * MIB] * 2
    assert table[["usable_bytes", "planned_peak_bytes"]].isna().all(axis=None)
    assert [capacity.sentence(row) for row in records(table)] == [
        "tf, allocation growth, cap 64 MiB: the largest batch that fits is 60 (measured: each batch ran a few steps)",
        "tf_graph, allocation growth, cap 64 MiB: the largest batch that fits is 16 (measured: each batch ran a few "
        "steps; between 16 and 32 nothing was tried)",
    ]


@pytest.mark.parametrize("outcome", ["oom", "crash", "timeout"])
def test_an_end_that_is_no_answer_refuses_no_batch(tmp_path: Path, outcome: str) -> None:
    found = tables_of(tmp_path, measured("tf", 0), probe("tf", 8), probe("tf", 16, outcome, "host")).capacity.iloc[0]
    assert found["largest_batch_size"] == 8 and found["smallest_refused_batch_size"] is pd.NA


def test_a_probe_is_in_no_comparison(tmp_path: Path) -> None:
    trials = [measured(name, block) for name in ("tf", "tf_graph") for block in range(3)]
    alone, beside = tables_of(tmp_path / "a", *trials), tables_of(tmp_path / "b", *trials, *PROBES)
    for name in ("conditions", "pairs", "warnings", "match"):
        pd.testing.assert_frame_equal(getattr(alone, name), getattr(beside, name))
    assert len(beside.trials) == len(trials)
    assert beside.outcomes["trials_count"].sum() == len(trials) + len(PROBES)
    assert beside.outcomes["label"].is_unique or beside.outcomes["condition_id"].is_unique


def test_compiled_and_measured_rows_share_no_figure(tmp_path: Path) -> None:
    planned = []
    for batch in (8, 16):
        settings = factory.condition("jax", device="tpu", chip="v5e", evidence="compiled", workload__batch_size=batch)
        plan = Plan(peak_bytes=batch * MIB, usable_bytes=12 * MIB, fits=batch == 8)
        planned.append(factory.trial(settings, 0, None, plan=plan))
    tables = tables_of(tmp_path, measured("tf", 0), *PROBES, *planned)
    assert tables.capacity["evidence"].tolist() == ["compiled", "measured", "measured"]
    assert tables.compiled_capacity["framework"].tolist() == ["jax"]
    assert tables.compiled_capacity[["device_live_peak_bytes", "refused_bytes"]].isna().all(axis=None)
    figure = gallery.draw(capacity_measured, tables)
    texts = [text.get_text().replace("\n", " ") for text in figure.findobj(Text)]
    assert {"60", "16 (refused: 32)"} <= set(texts)
    assert not any("jax" in text for text in texts)


@pytest.mark.usefixtures("svg_only")
def test_the_report_says_the_answer(tmp_path: Path) -> None:
    trials = [measured("tf", 0), *PROBES]
    settings = [{key: value for key, value in trials[0].spec.settings.items() if key != "replicate"}]
    folder = factory.write(tmp_path / "s", factory.session(settings, 1), *trials)
    page = analyse([folder], folder).report.read_text()
    assert "The largest batch that fits, measured" in page and 'id="figure-capacity_measured"' in page
    assert "tf, allocation growth, cap 64 MiB: the largest batch that fits is 60" in page
    header, first, *_ = (folder / "tables" / "capacity.csv").read_text().splitlines()
    assert dict(zip(header.split(","), first.split(","), strict=True))["evidence"] == "measured"
    assert trials[0].outcome.kind is OutcomeKind.OK
