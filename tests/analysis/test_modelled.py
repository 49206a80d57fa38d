"""The allocator model in the analysis: its table, its section and its figure, apart from all other evidence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from matplotlib.text import Text

from analysis import modelled
from analysis.figures import gallery, modelled_modes
from analysis.load import read_journals
from analysis.pipeline import analyse
from analysis.tables import Tables, build_tables
from runners.records import Plan, TrialRecord
from runners.specs import ChipSpec, DeviceSpec
from tests.analysis import records_factory as factory

MIB, GIB = 2**20, 2**30
GPU = ChipSpec("toy", "cuda", memory_bytes=10 * GIB, gpu_target={"compute_capability": "9.0"})
TPU = ChipSpec("v5e", "tpu", memory_bytes=16 * GIB)


def plan(**changes: Any) -> Plan:
    """900 MiB of state, donated, a loss, and 100 MiB of temporaries."""
    values: dict[str, Any] = {
        "argument_bytes": 900 * MIB, "output_bytes": 900 * MIB + 4, "alias_bytes": 900 * MIB, "temp_bytes": 100 * MIB,
        "code_bytes": 2 * MIB, "peak_bytes": 1002 * MIB + 4, "argument_buffers": [900 * MIB],
        "output_buffers": [900 * MIB, 4], "aliased_outputs": [0],
    }  # fmt: skip
    return Plan(**{**values, **changes})


def compiled(framework: str, chip: ChipSpec | None, found: Plan, device: str = "gpu") -> TrialRecord:
    name = chip.name if chip else None
    settings = factory.condition(framework, device=device, chip=name, evidence="compiled")
    record = factory.trial(settings, 0, None, plan=found)
    return replace(record, spec=replace(record.spec, device=DeviceSpec(device, name, sheet=chip)))


def study(folder: Path, *trials: TrialRecord) -> Path:
    settings = [{key: value for key, value in one.spec.settings.items() if key != "replicate"} for one in trials]
    return factory.write(folder / "s", factory.session(settings, 1), *trials)


def tables_of(folder: Path, *trials: TrialRecord) -> Tables:
    return build_tables(read_journals([study(folder, *trials)]), 0.02)


def test_a_gpu_plan_has_a_row_for_every_mode_of_its_framework(tmp_path: Path) -> None:
    table = tables_of(tmp_path, compiled("jax", GPU, plan()), compiled("tf", GPU, plan())).modelled
    assert table.groupby("framework").size().to_dict() == {"jax": 7, "tf": 7}
    growth = table[(table["framework"] == "jax") & (table["mode"] == "growth")].iloc[0]
    # 900 MiB take a region of 1,024 whole, for what remains is less than 128; all else lies in a second one
    assert growth["modelled_requested_bytes"] == 1000 * MIB + 8
    assert growth["modelled_live_bytes"] == 1124 * MIB + 512
    assert (growth["modelled_pool_bytes"], growth["modelled_growth_events"]) == (2048 * MIB, 2)
    assert growth["modelled_process_bytes"] == (2048 + 512 + 2) * MIB
    # 10,240 MiB hold three of 2,562; the 2,040 left beside the fourth's context hold its first region and nine tenths
    # of the second
    assert growth["modelled_fits"] and growth["modelled_tenants_count"] == 4
    assert pd.isna(growth["note"])


def test_the_table_is_as_documented(tmp_path: Path) -> None:
    table = tables_of(tmp_path, compiled("jax", GPU, plan())).modelled
    assert list(table.columns) == [column.name for column in modelled.COLUMNS]
    assert [str(dtype) for dtype in table.dtypes] == [column.dtype for column in modelled.COLUMNS]
    figures = [column.name for column in modelled.COLUMNS if column.unit in ("B", "s")]
    assert all(name.startswith("modelled_") for name in figures)


def test_what_cannot_be_modelled_says_why(tmp_path: Path) -> None:
    old = plan(argument_buffers=None, output_buffers=None, aliased_outputs=None)
    unversioned = compiled("jax", GPU, plan())
    unversioned.report.versions = {}
    table = tables_of(tmp_path, compiled("jax", TPU, plan(), "tpu"), compiled("tf", GPU, old), unversioned).modelled
    assert table["note"].tolist() == [modelled.TPU_NOTE, modelled.NO_BUFFERS_NOTE, modelled.NO_VERSION_NOTE]
    assert table["modelled_process_bytes"].isna().all() and table["modelled_tenants_count"].isna().all()


def test_a_plan_for_the_cpu_has_no_row(tmp_path: Path) -> None:
    assert tables_of(tmp_path, compiled("jax", None, plan(), "cpu")).modelled.empty


def test_a_process_that_does_not_fit_is_drawn_as_such(tmp_path: Path) -> None:
    tables = tables_of(tmp_path, compiled("jax", GPU, plan(temp_bytes=20 * GIB)))
    assert not tables.modelled["modelled_fits"].any() and (tables.modelled["modelled_tenants_count"] == 0).all()
    figure = gallery.draw(modelled_modes, tables)
    assert [text.get_text() for text in figure.findobj(Text)].count("✕ out of memory") == 7


def test_the_figure_shows_whole_plans_and_says_what_it_is(tmp_path: Path) -> None:
    trials = [compiled("jax", replace(GPU, name=f"toy{number}"), plan()) for number in range(6)]
    figure = gallery.draw(modelled_modes, tables_of(tmp_path, *trials))
    assert len(figure.axes[0].get_yticks()) == 35
    words = [text.get_text() for text in figure.findobj(Text)]
    assert any("neither measured nor compiled" in one.replace("\n", " ") for one in words)
    assert any("35 of 42 rows are drawn" in one.replace("\n", " ") for one in words)


@pytest.mark.usefixtures("svg_only")
def test_the_report_keeps_the_model_apart(tmp_path: Path) -> None:
    folder = study(tmp_path, compiled("jax", GPU, plan()), factory.trial(factory.condition("jax"), 0, 0.01))
    page = analyse([folder], folder).report.read_text()
    before, _, section = page.partition('<h2 id="modelled">')
    assert 'id="figure-modelled_modes"' in section and "modelled_modes" not in before
    assert "512 MiB beside its pool (assumed" in section
    assert (folder / "tables" / "modelled.csv").read_text().count("\n") == 8
    assert "modelled_" not in (folder / "trials.csv").read_text()
    assert "modelled_" not in (folder / "tables" / "compiled.csv").read_text()


@pytest.mark.usefixtures("svg_only")
def test_without_a_plan_there_is_no_such_section(tmp_path: Path) -> None:
    folder = factory.study(tmp_path / "s", [factory.condition("jax")], lambda *_: 0.01)
    assert 'id="modelled"' not in analyse([folder], folder).report.read_text()
    assert not (folder / "tables" / "modelled.csv").exists()
