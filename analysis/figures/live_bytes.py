"""Live bytes over the compiled module's schedule, where the compiler tells them (CPU and GPU). Nothing was run."""

from __future__ import annotations

from matplotlib.figure import Figure

from analysis.figures import launches, style
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
    """One line a plan, from the first instruction to the last, in MiB."""
    every = tables.timelines["trial"].unique()
    shown = tables.timelines[tables.timelines["trial"].isin(every[:MOST_LINES])]
    figure, axis = style.plain_figure(QUESTION)
    style.value_axis(axis, shown["live_bytes"].to_numpy(float) / MIB, "live (MiB)", zero=True, upward=True)
    firsts = shown.drop_duplicates("trial")
    drawn: dict[str, int] = {}
    for label, name, (_, points) in zip(
        launches.row_names(firsts), launches.frameworks(firsts), shown.groupby("trial", sort=False), strict=True
    ):
        line = STYLES[drawn.setdefault(name, 0) % len(STYLES)]
        drawn[name] += 1
        heights = points["live_bytes"].to_numpy(float) / MIB
        axis.plot(points["position"], heights, color=style.colour(name), linestyle=line, label=style.drawable(label))
    axis.set_xlabel("place in the schedule (0: first instruction, 1: last)")
    style.legend_above(axis)
    several = len(every) > MOST_LINES
    cut = f" {MOST_LINES} of {len(every):,} plans are drawn (the first); the journals have them all." if several else ""
    style.footnote(axis, "Of every stretch the highest." + cut)
    return figure
