"""Figures: that they can be read with 2 and with 30 conditions, say n and failures, and come out the same twice."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from analysis import drawing, processes
from analysis.figures import compile_time, gallery, style, waterfall
from analysis.figures.launches import shown_conditions
from analysis.load import read_journals
from analysis.tables import Tables, build_tables
from runners.records import Plan
from tests.analysis import records_factory as factory

#: The figures of every measured study; those of compiled evidence and of sharing have test files of their own.
MODULES = {
    module.__name__.rpartition(".")[2]: module
    for module in gallery.discover()
    if not hasattr(module, "EVIDENCE") and not hasattr(module, "SECTION")
}


def tables_of(folder: Path) -> Tables:
    return build_tables(read_journals([folder]), 0.02)


def study_of(folder: Path, sizes: int, frameworks: tuple[str, ...] = ("jax", "tf"), blocks: int = 4) -> Tables:
    conditions = [
        factory.condition(name, workload__batch_size=2**size, allocation="a rather long allocation mode name")
        for size in range(sizes)
        for name in frameworks
    ]
    trials = [
        factory.trial(
            one, b, 0.001 * (n + 1) * (1 + 0.01 * b), outcome="oom" if n % 7 == 6 and b < 2 else "ok", device_mib=9
        )
        for b in range(blocks)
        for n, one in enumerate(conditions)
    ]
    return tables_of(factory.write(folder / "s", factory.session(conditions, blocks), *trials))


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Figure]:
    figures = {}
    for count, sizes, names in ((2, 1, ("jax", "tf")), (30, 10, ("jax", "tf", "tf_graph"))):
        tables = study_of(tmp_path_factory.mktemp(f"n{count}"), sizes, names)
        for name, module in MODULES.items():
            figures[name, count] = gallery.draw(module, tables)
    return figures


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(Text) if text.get_text()]


def boxes(texts: list[Text], figure: Figure) -> list[object]:
    renderer = figure.canvas.get_renderer()  # type: ignore[attr-defined]
    shown = [text for text in texts if text.get_visible() and text.get_text()]
    return [Text.get_window_extent(text, renderer) for text in shown]  # of an annotation the text, without its line


def test_the_expected_figures_exist() -> None:
    expected = ["ratios", "step_time", "throughput", "memory", "waterfall", "tradeoff", "compile_time", "blocks"]
    assert list(MODULES) == [*expected, "outcomes"]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("count", [2, 30])
def test_no_two_labels_overlap(drawn: dict[tuple[str, int], Figure], name: str, count: int) -> None:
    figure = drawn[name, count]
    with style.applied():
        figure.draw_without_rendering()
    for axis in figure.axes:
        low, high = sorted(axis.get_xlim())
        ticks = [t for t, place in zip(axis.get_xticklabels(), axis.get_xticks(), strict=True) if low <= place <= high]
        legend = [axis.get_legend()] if axis.get_legend() else []
        legend_texts = [text for each in legend for text in each.get_texts()]
        for group in (ticks, axis.get_yticklabels(), axis.texts, [*axis.texts[:1], *legend_texts]):
            for one, other in itertools.combinations(boxes(group, figure), 2):
                assert not one.shrunk(0.98, 0.98).overlaps(other.shrunk(0.98, 0.98)), (name, count)  # type: ignore[attr-defined]
        everything = boxes([*ticks, *axis.get_yticklabels()], figure)
        assert everything, "an axis without any label"


@pytest.mark.parametrize("name", MODULES)
def test_the_question_is_the_title(drawn: dict[tuple[str, int], Figure], name: str) -> None:
    assert MODULES[name].QUESTION in texts(drawn[name, 2])
    assert MODULES[name].QUESTION.endswith("?")


def test_height_grows_with_the_rows(drawn: dict[tuple[str, int], Figure]) -> None:
    assert drawn["step_time", 30].get_figheight() > 4 * drawn["step_time", 2].get_figheight()


def test_failures_are_drawn_with_the_word(drawn: dict[tuple[str, int], Figure]) -> None:
    assert "n = 2  ✕ 2 oom" in texts(drawn["step_time", 30])
    assert "oom" in texts(drawn["outcomes", 30])


def test_one_launch_has_no_interval(tmp_path: Path) -> None:
    """Case 31, in the picture: the mean alone is drawn, and n = 1 is said."""
    figure = gallery.draw(MODULES["step_time"], study_of(tmp_path, 1, ("jax",), blocks=1))
    assert "n = 1: no interval" in texts(figure)
    assert [len(line.get_xdata()) for line in figure.axes[0].lines] == [1]


def test_a_condition_that_always_failed_keeps_its_row(tmp_path: Path) -> None:
    conditions = [factory.condition("jax"), factory.condition("tf")]
    folder = factory.study(tmp_path / "s", conditions, lambda number, _: None if number else 0.01)
    figure = gallery.draw(MODULES["step_time"], tables_of(folder))
    assert "✕ 3 oom" in texts(figure)
    assert [line.get_marker() for line in figure.axes[0].lines].count("x") == 1


def test_frameworks_keep_their_colours() -> None:
    assert style.colour("jax") == "#0072B2" and style.colour("tf") == "#D55E00"
    assert len({style.colour(name) for name in ("jax", "tf", "tf_graph")}) == 3
    assert style.colour("another/jit") == style.colour("another/jit")


def test_mean_of_one_and_a_hundred_is_drawn_where_it_is(tmp_path: Path) -> None:
    """Case 34: on a log axis the diamond stands at 50.5 ms, not at 10."""
    folder = factory.study(tmp_path / "s", [factory.condition()], lambda _, block: (0.001, 0.1)[block], blocks=2)
    axis = gallery.draw(MODULES["step_time"], tables_of(folder)).axes[0]
    assert axis.get_xscale() == "log"
    assert [line.get_xdata()[0] for line in axis.lines if line.get_marker() == "D"] == pytest.approx([50.5])


def test_an_interval_far_beyond_the_launches_is_cut_and_said(tmp_path: Path) -> None:
    """Two launches of 8 and 13 ms: the interval ends at 0.6 and 180 ms, which would leave no room to see them."""
    folder = factory.study(tmp_path / "s", [factory.condition()], lambda _, block: (0.008, 0.013)[block], blocks=2)
    figure = gallery.draw(MODULES["step_time"], tables_of(folder))
    axis = figure.axes[0]
    low, high = axis.get_xlim()
    assert 2 < low < 8 and 13 < high < 60
    assert [line.get_marker() for line in axis.lines if line.get_marker() in ("<", ">")] == ["<", ">"]
    assert any(text.endswith("Arrow: the\ninterval goes on.") for text in texts(figure))
    steady = factory.study(tmp_path / "t", [factory.condition()], lambda _, block: 0.01 + 1e-5 * block)
    assert not any("Arrow" in text for text in texts(gallery.draw(MODULES["step_time"], tables_of(steady))))


def test_the_parts_of_start_up_add_up(tmp_path: Path) -> None:
    """Recorded: import 0.7 s, trace 0.1, lower 0.2 (jax alone tells it), compile 1.0 in all, first step after 1.5."""
    tables = study_of(tmp_path, 1)
    parts = compile_time.split(tables.conditions)
    assert parts.loc[0].to_dict() == pytest.approx({"import": 0.7, "trace": 0.1, "lower": 0.2, "compile": 0.7})
    assert parts.loc[1].to_dict() == pytest.approx({"import": 0.7, "trace": 0.1, "lower": 0.0, "compile": 0.9})
    marks = gallery.draw(MODULES["compile_time"], tables).axes[0].lines[0]
    assert marks.get_xdata() == pytest.approx([2.2, 2.2])


def plans_of(folder: Path, peaks: dict[str, int], provenance: str = "p") -> Path:
    """Compiled trials of the same cell, by framework; each peak is of two live bytes."""
    conditions = [factory.condition(name, evidence="compiled") for name in peaks]
    plans = [Plan(peak_bytes=peak, temp_bytes=peak, live_bytes=[peak // 2, peak]) for peak in peaks.values()]
    trials = [
        dataclasses.replace(factory.trial(one, 0, None, plan=plan), provenance_hash=provenance)
        for one, plan in zip(conditions, plans, strict=True)
    ]
    return factory.write(folder, factory.session(conditions, 1), *trials)


def test_a_plan_that_is_smaller_is_drawn_below_zero(tmp_path: Path) -> None:
    """Differences of −10 %, +300 % and +2,900 %: none may be left out, as a logarithmic axis would the first."""
    folders = [plans_of(tmp_path / str(peak), {"jax": peak, "tf": 1000}, str(peak)) for peak in (900, 4000, 30_000)]
    axis = gallery.draw(gallery.named()["plan_differences"], build_tables(read_journals(folders), 0.02)).axes[0]
    (points,) = (line for line in axis.lines if line.get_marker() == "D")
    assert points.get_xdata() == pytest.approx([-10.0, 300.0, 2900.0])
    low, high = axis.get_xlim()
    assert axis.get_xscale() == "linear" and low < -10 and high > 2900


def test_the_same_plan_of_two_machines_is_two_lines(tmp_path: Path) -> None:
    folders = [plans_of(tmp_path / name, {"jax": peak * 2**20}, name) for name, peak in (("one", 2), ("two", 6))]
    figure = gallery.draw(gallery.named()["live_bytes"], build_tables(read_journals(folders), 0.02))
    assert [list(line.get_ydata()) for line in figure.axes[0].lines] == [[1.0, 2.0], [3.0, 6.0]]
    assert {line.get_label().split(":")[0] for line in figure.axes[0].lines} == {"one", "two"}


@pytest.mark.parametrize("name", MODULES)
def test_nothing_to_draw_is_said(tmp_path: Path, name: str) -> None:
    tables = tables_of(factory.write(tmp_path / "s", factory.session([factory.condition()])))
    assert gallery.missing_data(MODULES[name], tables).startswith("there are no ")


def test_a_missing_quantity_skips_its_figure(tmp_path: Path) -> None:
    trial = factory.trial(factory.condition(), 0, 0.01, host_mib=None, compile_seconds=None)
    tables = tables_of(factory.write(tmp_path / "s", factory.session([factory.condition()], 1), trial))
    drawings = {drawing.name: drawing for drawing in drawing.draw_all(tables, tmp_path / "figures")}
    assert drawings["memory"].skipped == "no row of conditions has host_peak_above_baseline_median_bytes"
    assert drawings["compile_time"].skipped and drawings["compile_time"].svg is None
    assert drawings["ratios"].skipped == "there are no pairs"
    saved = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert drawings["blocks"].skipped == "there is only one block"
    names = ("outcomes", "step_time", "throughput")
    assert saved == sorted(f"{name}.{kind}" for name in names for kind in ("svg", "pdf", "png"))


def test_figures_are_the_same_bytes_twice_and_stale_ones_go(tmp_path: Path) -> None:
    tables = study_of(tmp_path, 1)
    (tmp_path / "figures").mkdir()
    skipped = next(one for one in gallery.discover() if gallery.missing_data(one, tables)).__name__.rpartition(".")[2]
    for name in ("mine", skipped):
        (tmp_path / "figures" / f"{name}.svg").write_text("old")
    contents = []
    for _ in range(2):
        drawing.draw_all(tables, tmp_path / "figures")
        contents.append({path.name: path.read_bytes() for path in (tmp_path / "figures").iterdir()})
    assert contents[0] == contents[1]
    assert f"{skipped}.svg" not in contents[0]
    assert contents[0]["mine.svg"] == b"old"


def test_a_large_study_is_drawn_by_several_processes_to_the_same_bytes(tmp_path: Path) -> None:
    """With two processes one draws beside this one; how they share the figures is up to chance."""
    tables = study_of(tmp_path, 10)
    order: list[str] = []
    drawings = {
        count: drawing.draw_all(tables, tmp_path / f"by{count}", lambda: order.append("written"), count)
        for count in (1, 2, 3)
    }
    assert order == ["written"] * 3
    files = {
        count: {path.name: path.read_bytes() for path in (tmp_path / f"by{count}").iterdir()} for count in drawings
    }
    assert len(files[1]) == 3 * sum(one.svg is not None for one in drawings[1]) > 20
    assert files[1] == files[2] == files[3]
    for count in (2, 3):
        assert [(one.name, one.skipped) for one in drawings[count]] == [(one.name, one.skipped) for one in drawings[1]]


def test_the_size_of_a_study_decides_who_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn_by: list[int] = []
    draw_one = gallery.draw_one
    monkeypatch.setattr(gallery, "draw_one", lambda *what: drawn_by.append(os.getpid()) or draw_one(*what))
    tables = study_of(tmp_path, 1)
    drawing.draw_all(tables, tmp_path / "small")
    assert drawn_by == [os.getpid()] * len(gallery.named())
    drawn_by.clear()
    monkeypatch.setattr(drawing, "MANY_TRIALS", len(tables.trials))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    drawing.draw_all(tables, tmp_path / "unguarded")
    assert drawn_by == [os.getpid()] * len(gallery.named())
    drawn_by.clear()
    monkeypatch.setattr(processes, "_allowed", True)
    drawing.draw_all(tables, tmp_path / "large")
    assert len(drawn_by) < len(gallery.named())


def test_drawing_leaves_the_global_style_alone(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    gallery.draw(MODULES["step_time"], study_of(tmp_path, 1))
    assert dict(mpl.rcParams) == before


def test_too_many_rows_are_left_out_and_counted(tmp_path: Path) -> None:
    tables = study_of(tmp_path, 30, blocks=1)
    rows, said = shown_conditions(tables.conditions, "step_seconds_mean")
    assert len(rows) == style.MOST_ROWS
    assert f"{style.MOST_ROWS} of 60 rows are drawn" in said
    assert any(f"{style.MOST_ROWS} of 60 rows" in text.replace("\n", " ") for text in texts(draw_step(tables)))


def draw_step(tables: Tables) -> Figure:
    module: ModuleType = MODULES["step_time"]
    return gallery.draw(module, tables)


def waterfall_row(**values: float) -> dict[str, object]:
    names = (
        "host_peak_above_baseline", "device_live_peak", "device_pool_peak", "process_peak", "device_total_used",
        "device_fragmented_free",
    )  # fmt: skip
    return {f"{name}_median_bytes": values.get(name, math.nan) for name in names} | {"device": "cpu"}


def test_the_waterfall_adds_up_to_the_peak() -> None:
    parts = waterfall.host_parts(waterfall_row(host_peak_above_baseline=100, device_live_peak=30, device_pool_peak=45))
    assert parts == {"live arrays": 30, "pool slack": 15, "rest of the process": 55}
    alone = waterfall.host_parts(waterfall_row(host_peak_above_baseline=100))
    assert alone == {"rest of the process": 100}
    assert waterfall.device_parts(waterfall_row(host_peak_above_baseline=100, device_live_peak=30)) == {}


def test_the_waterfall_of_a_gpu_ends_at_the_drivers_count() -> None:
    row = {**waterfall_row(device_live_peak=30, device_pool_peak=75, process_peak=90), "device": "gpu"}
    row["host_peak_above_baseline_median_bytes"] = 500.0
    assert waterfall.host_parts(row) == {"rest of the process": 500}
    assert waterfall.device_parts(row) == {"live arrays": 30, "pool slack": 45, "context": 15}
    row |= {"device_total_used_median_bytes": 130.0, "device_fragmented_free_median_bytes": 5.0}
    parts = {"live arrays": 30, "fragmentation": 5, "pool slack": 40, "context": 15, "other processes": 40}
    assert waterfall.device_parts(row) == parts
    assert sum(parts.values()) == row["device_total_used_median_bytes"]


def test_peaks_that_do_not_coincide_never_exceed_the_whole() -> None:
    parts = waterfall.host_parts(waterfall_row(host_peak_above_baseline=20, device_live_peak=30, device_pool_peak=50))
    assert parts == {"live arrays": 20, "pool slack": 0, "rest of the process": 0}


def test_the_tradeoff_names_every_condition_once(drawn: dict[tuple[str, int], Figure]) -> None:
    names = [text for text in texts(drawn["tradeoff", 30]) if "batch_size" in text]
    assert len(names) == 30 and len(set(names)) == 30


def test_labels_that_the_font_lacks_are_spelled_out() -> None:
    assert style.wrapped("モデル $x$ · é") == "U+30E2U+30C7U+30EB $x$ · é"


def test_labels_break_between_settings() -> None:
    assert (
        style.wrapped("tf_graph · default · batch_size 128 · width 4096")
        == "tf_graph · default · batch_size 128\n· width 4096"
    )
