"""Compiled trials side by side: what two frameworks' plans differ in, and whether they plan the same work.

Nothing here was measured, and no table here is ever joined with a measured one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis import capacity, products
from analysis.factors import Place, places
from analysis.frames import records
from analysis.labels import framework_label
from analysis.load import Journals
from runners.records import OutcomeKind

#: What two plans are compared in, and the certificate that they plan the same work.
QUANTITIES = ("planned_peak_bytes", "planned_temp_bytes", "planned_code_bytes", "planned_flops")
EQUAL = ("parameters", "own_flops", "planned_argument_bytes", "planned_output_bytes")

DIFFERENCE_COLUMNS = ("provenance_hash", "cell", "level_a", "level_b", *QUANTITIES, "match", "match_reason")
TIMELINE_COLUMNS = (
    "trial",
    "provenance_hash",
    "condition_id",
    "label",
    "framework",
    "compile",
    "position",
    "live_bytes",
)

FRAMEWORK = ("framework", "compile", "framework.python")


def differences_table(planned: pd.DataFrame, journals: Journals) -> pd.DataFrame:
    """One row for two frameworks' plans of the same cell: each quantity as the ratio − 1 of the first to the second.

    `match` tells whether both plan the same work; missing where a count is not known.
    """
    rows = []
    for provenance, place, (a, b) in framework_pairs(planned, journals):
        match, reason = certificate(a, b)
        apart = [_apart(a[name], b[name]) for name in QUANTITIES]
        rows.append((provenance, place.cell_label, framework_name(a), framework_name(b), *apart, match, reason))
    return pd.DataFrame(rows, columns=list(DIFFERENCE_COLUMNS)).astype({"match": "boolean"})


def certificate(a: dict[str, Any], b: dict[str, Any]) -> tuple[bool | None, str]:
    """Whether two plans are of the same work, and why (not)."""
    names = framework_name(a), framework_name(b)
    missing = [name for name in EQUAL if pd.isna(a[name]) or pd.isna(b[name])]
    for name in EQUAL:
        if name not in missing and a[name] != b[name]:
            return False, f"{name}: {names[0]} {a[name]:,}, {names[1]} {b[name]:,}"
    own = [_known(row["own_matrix_flops"]) for row in (a, b)]
    found = [_known(row["planned_matrix_flops"]) for row in (a, b)]
    failed = products.any_failure((own[0], own[1]), (found[0], found[1]), names, "'s lowered module")
    if failed:
        return False, failed
    for counted, held, name in zip(own, found, names, strict=True):
        if counted and held is None:
            missing.append(f"FLOPs of products in {name}'s lowered module")
    if missing:
        return None, f"not checked: no {missing[0]}"
    return True, "same parameters, FLOPs, argument and output bytes; FLOPs of products as counted, within 1 %"


def _known(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)


def timelines_table(planned: pd.DataFrame, journals: Journals, labels: dict[str, str]) -> pd.DataFrame:
    """Live bytes over the schedule, long: `position` runs from 0 to 1, whatever the number of points.

    `trial` is the plan's label in the table of trials.
    """
    parts = []
    columns = ["provenance_hash", "condition_id", "framework", "compile"]
    for index, provenance, condition, framework, compile in planned[columns].itertuples():
        points = journals.evidence.timelines.get(index)
        if points is not None:
            parts.append(
                pd.DataFrame(
                    {
                        "trial": index,
                        "provenance_hash": provenance,
                        "condition_id": condition,
                        "label": labels[condition],
                        "framework": framework,
                        "compile": compile,
                        "position": np.linspace(0.0, 1.0, len(points)),
                        "live_bytes": points,
                    }
                )
            )
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(TIMELINE_COLUMNS))


def sentences(differences: pd.DataFrame, found: pd.DataFrame) -> list[str]:
    """The answers in words, each with its evidence; `found` are the rows of the capacity table that were compiled."""
    return [_difference(row) for row in records(differences)] + [capacity.sentence(row) for row in records(found)]


def _difference(row: dict[str, Any]) -> str:
    cell = f"{row['cell']}: " if row["cell"] else ""
    peak, temp = row["planned_peak_bytes"], row["planned_temp_bytes"]
    text = f"{cell}planned, not measured: {row['level_a']}'s peak is {peak:+.1%} against {row['level_b']}'s"
    text += "" if pd.isna(temp) else f", its temporaries {temp:+.1%}"
    matched = row["match"]
    return text + ("" if pd.isna(matched) or matched else f" — NOT MATCHED: {row['match_reason']}")


def framework_pairs(
    planned: pd.DataFrame, journals: Journals
) -> Iterator[tuple[str, Place, tuple[dict[str, Any], dict[str, Any]]]]:
    """Every two ok plans of a cell of different frameworks, in the design's order: provenance, place, plans."""
    found = places(_settings(planned, journals), FRAMEWORK)
    cells: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records(planned[planned["outcome"] == OutcomeKind.OK.value]):
        cells.setdefault((row["provenance_hash"], found[row["condition_id"]].cell), []).append(row)
    for (provenance, _), rows in cells.items():
        unique = list({framework_name(row): row for row in rows}.values())
        for index, second in enumerate(unique):
            for first in unique[:index]:
                yield provenance, found[first["condition_id"]], (first, second)


def _settings(planned: pd.DataFrame, journals: Journals) -> dict[str, dict[str, Any]]:
    names = dict.fromkeys(planned["condition_id"])
    return {name: journals.conditions[name] for name in names}


def framework_name(row: dict[str, Any]) -> str:
    """`jax`, `tf` or `tf_graph`, of a row of the trials table."""
    return framework_label(row["framework"], row["compile"])


def _apart(first: Any, second: Any) -> float:
    return float("nan") if pd.isna(first) or pd.isna(second) or not second else float(first) / float(second) - 1
