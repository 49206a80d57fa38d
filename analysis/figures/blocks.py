"""Step time in the course of the study: drift of the machine, and where trials failed."""

from __future__ import annotations

from collections import Counter

import pandas as pd
import seaborn as sns
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.conditions import KEY
from analysis.figures import launches, style
from analysis.tables import Tables

QUESTION = "Did the machine drift during the study?"
TABLE = "conditions"
COLUMNS = ("step_seconds_mean",)
ORDER = 60


def draw(tables: Tables) -> Figure:
    """Step time ÷ its condition's mean, block by block: lines a framework's quartiles and median over conditions."""
    data = relative_times(tables.trials)
    figure, axis = style.plain_figure(QUESTION)
    axis.axhline(1, color=style.FAINT, linewidth=1)
    for framework, series in data.groupby("framework", sort=True):
        relative = series.groupby("place")["relative"]
        low, high = relative.quantile(0.25), relative.quantile(0.75)
        axis.fill_between(low.index, low, high, color=style.colour(str(framework)), alpha=0.15, linewidth=0)
    medians = data.groupby(["framework", "place"], sort=True)["relative"].median().reset_index()
    kinds = sorted(set(medians["framework"]))
    sns.lineplot(
        data=medians,
        x="place",
        y="relative",
        hue="framework",
        style="framework",
        hue_order=kinds,
        palette={kind: style.colour(kind) for kind in kinds},
        markers={kind: style.marker(kind) for kind in kinds},
        dashes=False,
        estimator=None,
        markersize=6 if medians["place"].nunique() <= 60 else 0,
        ax=axis,
    )
    _failures(axis, tables.trials)
    style.legend_above(axis)
    axis.set_xlabel("block")
    axis.set_ylabel("step time ÷ mean of its condition")
    axis.xaxis.set_major_locator(ticker.MaxNLocator(10, integer=True))
    axis.margins(x=0.04)
    style.footnote(axis, "Line: median over conditions; band: their quartiles. Crosses below: trials that failed.")
    return figure


def lacking(tables: Tables) -> str:
    """Why there is no course of time to see."""
    return "" if len(block_places(tables.trials)) > 1 else "there is only one block"


def relative_times(trials: pd.DataFrame) -> pd.DataFrame:
    """place (block, counted through the folders), framework, and step time over its condition's arithmetic mean."""
    ok = trials[trials["step_seconds"].notna()]
    mean = ok.groupby(KEY, dropna=False)["step_seconds"].transform("mean")
    places = block_places(trials)
    where = [places[key] for key in zip(ok["_folder"], ok["block"], strict=True)]
    return pd.DataFrame(
        {"place": where, "framework": launches.frameworks(ok), "relative": (ok["step_seconds"] / mean).to_numpy()}
    )


def block_places(trials: pd.DataFrame) -> dict[tuple[int, int], int]:
    """(folder, block) → place on the axis: the block's own number, studies one after the other."""
    last = trials.groupby("_folder")["block"].max().astype(int) + 1
    offsets = last.cumsum() - last
    keys = trials[["_folder", "block"]].drop_duplicates().itertuples(index=False, name=None)
    return {(int(folder), int(block)): int(offsets[folder] + block) for folder, block in keys}


def _failures(axis: Axes, trials: pd.DataFrame) -> None:
    """A red cross under every block that had failures, with their number where it is more than one."""
    places = block_places(trials)
    failed = trials[(trials["outcome"] != "ok") & (trials["start"] != "not launched")]
    counts = Counter(failed[["_folder", "block"]].itertuples(index=False, name=None))
    for key, number in counts.items():
        place = axis.get_xaxis_transform()
        axis.plot([places[key]], [0.03], marker="x", color=style.FAILURE, transform=place)
        if number > 1 and len(counts) <= 30:
            axis.text(places[key], 0.06, f"{number}", transform=place, color=style.FAILURE, ha="center", fontsize=8)
