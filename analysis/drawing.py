"""Draws the figures of an analysis; those of a large study in further processes, while this one goes on.

Fonts, layout and three formats take a second of processor time a figure, whatever the size of the study.
"""

from __future__ import annotations

import multiprocessing
import pickle
import tempfile
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path

from analysis import processes
from analysis.figures import gallery
from analysis.figures.gallery import Drawing
from analysis.tables import Tables
from runners.lifeline import die_with_parent

#: From here on further processes pay: each takes a second or two to start and to get the tables.
MANY_TRIALS = 5_000

#: More processes than this would wait for their share of some ten figures.
MOST_PROCESSES = 4

#: What a further process draws from; it gets them once.
_given: list[Tables] = []


def draw_all(
    tables: Tables, folder: Path, meanwhile: Callable[[], object] = list, count: int | None = None
) -> list[Drawing]:
    """Every figure into `folder`, the same bytes however many processes draw, and `meanwhile` done.

    `count` is that of processes, this one included; None chooses by the size of the study and what is allowed.
    """
    gallery.clear(folder)
    if count is None:
        count = processes.at_most(MOST_PROCESSES) if len(tables.trials) >= MANY_TRIALS else 1
    if count == 1:
        meanwhile()
        return [gallery.draw_one(name, tables, folder) for name in gallery.named()]
    with tempfile.NamedTemporaryFile(prefix=gallery.TABLES, dir=folder) as stream:
        pickle.dump(tables, stream, protocol=pickle.HIGHEST_PROTOCOL)
        stream.flush()
        # started afresh: a copy of this process would hold threads that were in the middle of something
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count - 1, context, _take, (stream.name,)) as pool:
            begun = [pool.submit(_draw, name, folder) for name in gallery.named()]
            try:
                meanwhile()
                return _finish(begun, tables, folder)
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _finish(begun: list[Future[Drawing]], tables: Tables, folder: Path) -> list[Drawing]:
    """All drawings in their order; what no other process has begun is drawn here, from the last on."""
    own = {
        place: gallery.draw_one(name, tables, folder)
        for place, name in reversed(list(enumerate(gallery.named())))
        if begun[place].cancel()
    }
    return [own[place] if place in own else one.result() for place, one in enumerate(begun)]


def _take(path: str) -> None:
    die_with_parent()
    with Path(path).open("rb") as stream:
        _given.append(pickle.load(stream))


def _draw(name: str, folder: Path) -> Drawing:
    return gallery.draw_one(name, _given[0], folder)
