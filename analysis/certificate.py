"""The match certificate: whether two frameworks did the same work, one line for each kind of work.

A line stands for workload × size × mode × dtype × precision and a pair of frameworks, and holds the outcome of every
test over all trials of it: a test is true where it held each time, false where it failed once, and missing where it
does not apply or something was not recorded. Measured and compiled trials, devices and
machines have lines of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis import plans
from analysis.certificate_tests import (
    COMPILED,
    COUNTS,
    MEASURED,
    TESTS,
    Facts,
    Line,
    Work,
    compare_flops,
    compare_losses,
    compare_values,
    verdict,
)
from analysis.factors import places, without_company
from analysis.frames import records
from analysis.load import Journals
from analysis.matching import tolerance
from analysis.pairing import Pair, find_pairs
from runners.records import Evidence

COLUMNS = (
    *Work._fields, "comparisons_count", *TESTS, "largest_matrix_flops_difference_ratio", "losses_count",
    "largest_loss_difference_ratio", "relative_tolerance_ratio", "verdict", "reason",
)  # fmt: skip

#: What a measured trial counts, each of which is compared.
COUNTED = (*COUNTS.values(), "own_matrix_flops", "traced_matrix_flops")


def certificate_table(measured: pd.DataFrame, planned: pd.DataFrame, journals: Journals) -> pd.DataFrame:
    """One row for each kind of work, whatever the study compares: measured ones first, then compiled ones."""
    lines: dict[Work, Line] = {}
    _certify_measured(measured, journals, lines)
    _certify_compiled(planned, journals, lines)
    table = pd.DataFrame([_row(work, line) for work, line in lines.items()], columns=list(COLUMNS))
    whole = dict.fromkeys(("comparisons_count", "losses_count"), "Int64")
    return table.astype({**dict.fromkeys(TESTS, "boolean"), **whole})


def _certify_measured(measured: pd.DataFrame, journals: Journals, lines: dict[Work, Line]) -> None:
    facts = dict(zip(measured.index, _facts(measured), strict=True))
    # company changes how long work takes, not what it is
    conditions = {name: without_company(journals.conditions[name]) for name in measured["condition_id"].unique()}
    sample = {one["condition_id"]: one for one in facts.values()}
    for pair in find_pairs(measured, places(conditions, plans.FRAMEWORK)):
        known = sample[pair.first.condition or pair.second.condition]
        work = _work(known, journals, (pair.first.label, pair.second.label))
        line = lines.setdefault(work, Line(tolerance(known, journals.evidence)))
        compared: set[tuple[Any, ...]] = set()
        for first, second in _trials(pair):
            hashes = [journals.evidence.input_hashes.get(label) for label in (first, second)]
            counts = [facts[label][name] for label in (first, second) for name in COUNTED]
            # most trials of a pair say the same: it is noted once
            alike = (*counts, *(one is None for one in hashes), hashes[0] == hashes[1])
            line.comparisons += 1
            if alike not in compared:
                compared.add(alike)
                sides = [
                    {**facts[label], "input_hash": one} for label, one in zip((first, second), hashes, strict=True)
                ]
                compare_values(sides[0], sides[1], MEASURED, work, line)
                compare_flops(sides, "traced_matrix_flops", work, line)
            compare_losses(first, second, journals.evidence, work, line)


def _certify_compiled(planned: pd.DataFrame, journals: Journals, lines: dict[Work, Line]) -> None:
    for _, _, (a, b) in plans.framework_pairs(planned, journals):
        sides = _facts(pd.DataFrame([a, b]))
        work = _work(sides[0], journals, (plans.framework_name(a), plans.framework_name(b)))
        line = lines.setdefault(work, Line(math.nan))
        line.comparisons += 1
        compare_values(sides[0], sides[1], COMPILED, work, line)
        compare_flops(sides, "planned_matrix_flops", work, line)


def _trials(pair: Pair) -> Iterator[tuple[int, int]]:
    return ((first, second) for firsts, seconds in pair.common for first in firsts for second in seconds)


def _work(fact: Facts, journals: Journals, frameworks: tuple[str, str]) -> Work:
    """The line of a trial: a Keras model and a user's own file are workloads of their own."""
    settings = journals.conditions[fact["condition_id"]]
    named = [fact["workload"], settings.get("workload.model"), settings.get("workload.path")]
    return Work(
        provenance_hash=fact["provenance_hash"],
        evidence=fact["evidence"],
        device=fact["device"],
        workload=" ".join(str(part) for part in named if part),
        size=settings.get("workload.size"),
        mode=settings.get("workload.mode"),
        dtype=fact["dtype"],
        precision=journals.evidence.precisions.get(fact["condition_id"], "float32"),
        framework_a=frameworks[0],
        framework_b=frameworks[1],
    )


def _row(work: Work, line: Line) -> tuple[Any, ...]:
    answer = verdict(line)
    tests = [line.tests.get(test) for test in TESTS]
    # a compiled trial has no losses, which is not the same as none that could be compared
    losses = line.losses if work.evidence == Evidence.MEASURED else None
    numbers = line.largest_flops, losses, line.largest_loss, line.tolerance
    return (*work, line.comparisons, *tests, *numbers, *answer)


def _facts(trials: pd.DataFrame) -> list[Facts]:
    """The columns that are looked at; a missing one is None."""
    columns = [
        "condition_id", "provenance_hash", "evidence", "device", "workload", "dtype", "own_matrix_flops",
        "traced_matrix_flops", "planned_matrix_flops", *dict.fromkeys((*COUNTS.values(), *COMPILED.values())),
    ]  # fmt: skip
    return records(trials[columns].astype(object).where(trials[columns].notna(), None))
