"""How all figures look: fixed colours, the row layout, axes that stay readable. Nothing here knows what is drawn."""

from __future__ import annotations

import functools
import hashlib
import math
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib import font_manager, ft2font, ticker
from matplotlib.axes import Axes
from matplotlib.axis import Axis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from analysis.labels import SEPARATOR

#: Okabe and Ito's palette, told apart with any common colour blindness. A framework keeps its colour everywhere.
FRAMEWORK_COLOURS = {"jax": "#0072B2", "tf": "#D55E00", "tf_graph": "#009E73"}
FRAMEWORK_MARKERS = {"jax": "o", "tf": "s", "tf_graph": "^"}
OTHER_COLOURS = ("#CC79A7", "#56B4E9", "#E69F00", "#999999")
OTHER_MARKERS = ("v", "P", "X", "d")

FAILURE = "#B00020"
INK = "#222222"
FAINT = "#666666"
BAND = "#DDDDDD"

OUTCOME_COLOURS = {
    "ok": "#CFE8D5",
    "oom": "#E69F00",
    "crash": "#B00020",
    "timeout": "#CC79A7",
    "unavailable": "#BBBBBB",
    "not_applicable": "#EEEEEE",
    "config": "#56B4E9",
    "invalid": "#F0E442",
    "not run": "#FFFFFF",
}

#: More rows than this are not drawn: the figure says how many were left out, the table has them all.
MOST_ROWS = 40

#: Keeps a setting and its level on one line.
_FIXED_SPACE = "\N{NO-BREAK SPACE}"

LABEL_WIDTH = 36
LABEL_LINES = 3
LINE_INCHES = 0.17
ROW_INCHES = 0.34

#: Of a legend: what stands beside a label, and a letter of it on average.
HANDLE_INCHES, LETTER_INCHES = 0.5, 0.062

_SETTINGS = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 11,
    "text.parse_math": False,
    "svg.hashsalt": "accelerator-study",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "figure.dpi": 100,
    "axes.edgecolor": "#AAAAAA",
    "grid.color": "#E6E6E6",
}


@contextmanager
def applied() -> Iterator[None]:
    """Draw and save inside: the style holds here only, whatever the caller's settings are."""
    with mpl.rc_context(), sns.axes_style("whitegrid"):
        mpl.rcParams.update(_SETTINGS)
        yield


def colour(framework: str) -> str:
    """The colour of a framework label; one that is not known gets a fixed one by its name."""
    return FRAMEWORK_COLOURS.get(framework) or OTHER_COLOURS[_stable(framework) % len(OTHER_COLOURS)]


def marker(framework: str) -> str:
    """The marker of a framework label: shape tells apart what colour may not."""
    return FRAMEWORK_MARKERS.get(framework) or OTHER_MARKERS[_stable(framework) % len(OTHER_MARKERS)]


def _stable(text: str) -> int:
    return hashlib.sha256(text.encode()).digest()[0]


def row_figure(labels: Sequence[str], title: str, panels: int = 1, width: float = 6.0) -> tuple[Figure, list[Axes]]:
    """Axes with one row per label, the first on top, row i at y = i; height grows with the rows and their lines.

    `width` is that of all panels together, in inches.
    """
    names = [wrapped(label) for label in labels]
    lines = [name.count("\n") + 1 for name in names]
    height = max(sum(max(ROW_INCHES, LINE_INCHES * count + 0.12) for count in lines), 0.9)
    figure, axes = _blank(width, height, panels)
    for axis in axes:
        axis.set_ylim(len(labels) - 0.5, -0.5)
        axis.set_yticks(range(len(labels)), names if axis is axes[0] else [""] * len(labels))
        axis.tick_params(axis="y", length=0)
        axis.grid(False, axis="y")
    headline(axes[0], title)
    return figure, axes


def plain_figure(title: str, width: float = 6.5, height: float = 3.2) -> tuple[Figure, Axes]:
    """One pair of axes of a fixed size in inches."""
    figure, axes = _blank(width, height, 1)
    headline(axes[0], title)
    return figure, axes[0]


def _blank(width: float, height: float, panels: int) -> tuple[Figure, list[Axes]]:
    """Axes placed in inches; saving crops to what is drawn, so that labels of any length fit."""
    gap = 0.35
    figure = Figure(figsize=(width + 2, height + 2))
    FigureCanvasAgg(figure)
    each = (width - gap * (panels - 1)) / panels
    place = [(1 + number * (each + gap)) / (width + 2) for number in range(panels)]
    rectangles = [(left, 1 / (height + 2), each / (width + 2), height / (height + 2)) for left in place]
    return figure, [figure.add_axes(rectangle) for rectangle in rectangles]


def headline(axis: Axes, title: str) -> None:
    """The figure's question, above its first panel."""
    text = "\n".join(textwrap.wrap(title, 62))
    axis.annotate(
        text, (0, 1), xytext=(0, 22), xycoords="axes fraction", textcoords="offset points", fontsize=11, weight="bold"
    )


def legend_above(axis: Axes, handles: Sequence[Any] | None = None) -> None:
    """A legend between the question and the axes, as wide as these; without `handles`, of all that has a label."""
    handles = axis.get_legend_handles_labels()[0] if handles is None else list(handles)
    columns = _legend_columns(axis, [str(one.get_label()) for one in handles])
    axis.legend(
        handles=handles,
        title=None,
        frameon=False,
        ncols=columns,
        loc="lower left",
        bbox_to_anchor=(-0.01, 1.0),
        borderaxespad=0,
        fontsize=8,
    )
    axis.texts[0].set_position((0, 11 + 12.4 * -(-len(handles) // columns)))


def _legend_columns(axis: Axes, labels: Sequence[str]) -> int:
    """At most five, and no more than fit over all panels."""
    figure = axis.get_figure(root=True)
    assert figure is not None
    right = max(one.get_position().x1 for one in figure.axes)
    inches = (right - axis.get_position().x0) * figure.get_figwidth()
    widest = HANDLE_INCHES + LETTER_INCHES * max(map(len, labels), default=0)
    return max(1, min(5, int(inches / widest)))


def footnote(axis: Axes, text: str) -> None:
    """How to read the figure, below the first panel's axis label."""
    axis.annotate(
        "\n".join(textwrap.wrap(text, 96)),
        (0, 0),
        xytext=(0, -44),
        xycoords="axes fraction",
        textcoords="offset points",
        va="top",
        color=FAINT,
        fontsize=8,
    )


def beside(axis: Axes, row: float, text: str, colour: str = FAINT) -> None:
    """A word on the right of a row, outside the axes."""
    place = axis.get_yaxis_transform()
    axis.text(1.015, row, drawable(text), transform=place, va="center", ha="left", color=colour, fontsize=8)


def wrapped(label: str, lines: int = LABEL_LINES) -> str:
    """A label in at most so many lines of 36 characters, broken between settings; the rest is cut, with an ellipsis."""
    whole = SEPARATOR.join(part.replace(" ", _FIXED_SPACE) for part in drawable(label).split(SEPARATOR))
    found = textwrap.wrap(whole, LABEL_WIDTH, max_lines=lines, placeholder=" …") or [""]
    return "\n".join(found).replace(_FIXED_SPACE, " ")


def drawable(text: str) -> str:
    """The text with characters that the font lacks written out as U+XXXX: a number can be looked up, a box cannot."""
    return "".join(c if c == "\n" or ord(c) in _characters() else f"U+{ord(c):04X}" for c in text)


@functools.cache
def _characters() -> frozenset[int]:
    path = Path(font_manager.findfont("DejaVu Sans"))
    return frozenset(ft2font.FT2Font(str(path)).get_charmap())


def value_axis(
    axes: Axes, values: Any, label: str, *, zero: bool = False, include: Sequence[float] = (), upward: bool = False
) -> None:
    """Scale, limits and ticks of the x axis for these values; logarithmic where they span more than a factor of 12 and
    none is zero or below, which such an axis could not show.

    `zero` lets a linear axis begin at 0, as bars need it; `include` are further values that must be visible; `upward`
    means the y axis instead.
    """
    axis = axes.yaxis if upward else axes.xaxis
    finite = np.array([float(value) for value in [*values, *include] if math.isfinite(value)])
    axis.set_label_text(label)
    axis.set_tick_params(labelsize=8)
    if not len(finite):
        return
    low, high = float(finite.min()), float(finite.max())
    if 0 < 12 * low < high and not zero:
        _logarithmic(axis, low, high)
    else:
        _linear(axis, min(low, 0.0) if zero else low, max(high, 0.0) if zero else high, zero)


def _linear(axis: Axis, low: float, high: float, zero: bool) -> None:
    margin = 0.06 * (high - low) or 0.05 * abs(high) or 1.0
    _set_range(axis, low if zero and low == 0 else low - margin, high + margin)
    axis.set_major_locator(ticker.MaxNLocator(5 if axis.axes.get_position().width > 0.4 else 4))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.6g}"))


def _logarithmic(axis: Axis, low: float, high: float) -> None:
    axis.axes.set(**{"yscale" if isinstance(axis, YAxis) else "xscale": "log"})
    _set_range(axis, low / 1.3, high * 1.3)
    decades = math.log10(high / low)
    subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0, 3.0) if decades < 3.2 else (1.0,)
    axis.set_major_locator(ticker.LogLocator(subs=subs, numticks=12))
    axis.set_minor_locator(ticker.NullLocator())
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _plain_number(value)))


def _plain_number(value: float) -> str:
    if value < 1e3:
        return f"{value:,.3g}"
    return f"{value:,.0f}" if value < 1e6 else f"{value:.0e}"


def _set_range(axis: Axis, low: float, high: float) -> None:
    axis.axes.set(**{"ylim" if isinstance(axis, YAxis) else "xlim": (low, high)})


def left_out(shown: int, total: int, which: str) -> str:
    """A sentence for the footnote when not all rows are drawn; empty otherwise."""
    return f" {shown} of {total:,} rows are drawn ({which}); the tables have them all." if shown < total else ""
