"""Live bytes over the compiled module's schedule, where the compiler tells them (CPU and GPU). Nothing was run."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import style
from analysis.labels import framework_label
from analysis.tables import Tables
from analysis.words import MIB

QUESTION = "Planned, not measured: when in a step does it need its memory?"
TABLE = "timelines"
COLUMNS = ("live_bytes",)
ORDER = 130
EVIDENCE = "compiled"

#: More lines than this cannot be told apart.
MOST_LINES = 8
STYLES = ("solid", "dashed", "dotted", "dashdot")


def draw(tables: Tables) -> Figure:
    """One line a condition, from the first instruction to the last, in MiB."""
    groups = list(tables.timelines.groupby("condition_id", sort=False))
    figure, axis = style.plain_figure(QUESTION)
    shown = tables.timelines[tables.timelines["condition_id"].isin([name for name, _ in groups[:MOST_LINES]])]
    style.value_axis(axis, shown["live_bytes"].to_numpy(float) / MIB, "live (MiB)", zero=True, upward=True)
    drawn: dict[str, int] = {}
    for _, points in groups[:MOST_LINES]:
        first = points.iloc[0]
        name = framework_label(first["framework"], first["compile"])
        line = STYLES[drawn.setdefault(name, 0) % len(STYLES)]
        drawn[name] += 1
        heights = points["live_bytes"].to_numpy(float) / MIB
        axis.plot(
            points["position"], heights, color=style.colour(name), linestyle=line, label=style.drawable(first["label"])
        )
    axis.set_xlabel("place in the schedule (0: first instruction, 1: last)")
    style.legend_above(axis)
    style.footnote(
        axis, "Of every stretch the highest." + style.left_out(min(len(groups), MOST_LINES), len(groups), "the first")
    )
    return figure
