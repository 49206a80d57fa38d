"""Whether the two sides of a pair did the same work: the same bytes in, the same counts, the same first losses.

A mismatch belongs to the pair and is found here; no record is changed for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import products
from analysis.frames import records
from analysis.journal_reader import Evidence
from analysis.pairing import Pair

#: Largest relative difference of a loss. A unit in the last place is 1.2e-7 in float32, 9.8e-4 in float16 and 7.8e-3 in
#: bfloat16. Losses are accumulated in float32 but from values of the format, in another order in each framework: some
#: hundred units in float32, and a few units in the short formats, where averaging over a batch takes most of it away.
RELATIVE_TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2, "float16": 5e-3}

#: A float32 product at reduced precision rounds its inputs to the short format (tf32 has float16's ten bits). Only
#: accelerators do this: on a CPU float32 is float32.
PRECISION_TOLERANCE = {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 2e-2}

#: What to look for where the inputs are not the same on both sides.
INPUTS_HINT = "; inputs(workload, seed) must draw all that it draws from its seed"

COLUMNS = (
    "match",
    "match_reason",
    "match_blocks_count",
    "match_losses_count",
    "largest_relative_difference_ratio",
    "relative_tolerance_ratio",
)


@dataclass
class Certificate:
    """What was compared so far: blocks, losses, the largest relative difference, and what was missing."""

    tolerance: float
    blocks: int = 0
    losses: int = 0
    largest: float = 0.0
    missing: str = ""
    failure: str = ""


def match_table(pairs: list[Pair], trials: pd.DataFrame, evidence: Evidence, primary: tuple[str, ...]) -> pd.DataFrame:
    """One row a pair, in the order of `pairs`: match (true, false, or missing: not checkable) and the reason."""
    facts = _facts(trials)
    work_differs = [setting for setting in primary if setting.split(".")[0] in ("workload", "seed")]
    rows = [_row(pair, facts, evidence, work_differs) for pair in pairs]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    return table.astype({"match": "boolean", "match_blocks_count": "Int64", "match_losses_count": "Int64"})


def _row(pair: Pair, facts: dict[int, dict[str, Any]], evidence: Evidence, work_differs: list[str]) -> tuple[Any, ...]:
    if work_differs:
        return None, f"not checked: the levels differ in the work itself ({work_differs[0]})", 0, 0, math.nan, math.nan
    if not pair.common:
        return None, "not checked: no common block", 0, 0, math.nan, math.nan
    sample = pair.common[0][0][0]
    certificate = Certificate(tolerance(facts[sample], evidence))
    for first, second in _trial_pairs(pair):
        _compare(first, second, pair, facts, evidence, certificate)
        if certificate.failure:
            break
    return _answer(certificate)


def _trial_pairs(pair: Pair) -> Iterator[tuple[int, int]]:
    return ((first, second) for firsts, seconds in pair.common for first in firsts for second in seconds)


def _answer(found: Certificate) -> tuple[Any, ...]:
    numbers = found.blocks, found.losses, found.largest if found.losses else math.nan, found.tolerance
    if found.failure:
        return False, found.failure, *numbers
    if found.missing:
        return None, f"not checked: {found.missing}", *numbers
    text = f"same input bytes, parameters and FLOPs; {found.losses} losses within {found.tolerance:g} in relative terms"
    return True, f"{text} (largest difference {found.largest:.2g})", *numbers


def _compare(
    first: int, second: int, pair: Pair, facts: dict[int, dict[str, Any]], evidence: Evidence, found: Certificate
) -> None:
    """One trial against another; what differs goes to `found.failure`, what was not recorded to `found.missing`."""
    found.blocks += 1
    names = pair.first.label, pair.second.label
    block = facts[first]["block"]
    hashes = evidence.input_hashes.get(first), evidence.input_hashes.get(second)
    for what, (a, b) in {
        "input hash": hashes,
        "parameter count": (facts[first]["parameters"], facts[second]["parameters"]),
        "own FLOPs": (facts[first]["own_flops"], facts[second]["own_flops"]),
    }.items():
        if a is None and b is None and what != "input hash":
            found.missing = found.missing or f"the workload has no {what}; counts(workload) on its page would give it"
        elif a is None or b is None:
            found.missing = found.missing or f"no {what} of {names[0] if a is None else names[1]}"
        elif a != b:
            hint = INPUTS_HINT if what == "input hash" else ""
            found.failure = f"{what} differs in block {block}: {names[0]} {a}, {names[1]} {b}{hint}"
            return
    found.failure = (
        _products_failure(facts[first], facts[second], names)
        or _loss_failure(evidence.losses, first, evidence.losses, second, names, found)
        or _loss_failure(evidence.losses, first, evidence.reference_losses, first, (names[0], "reference"), found)
        or _loss_failure(evidence.losses, second, evidence.reference_losses, second, (names[1], "reference"), found)
    )
    found.failure += f" (block {block})" if found.failure else ""


def _products_failure(a: dict[str, Any], b: dict[str, Any], names: tuple[str, str]) -> str:
    """Each side's trace against the workload's own count; where it has none, against the other's."""
    own = a["own_matrix_flops"], b["own_matrix_flops"]
    return products.any_failure(own, (a["traced_matrix_flops"], b["traced_matrix_flops"]), names, "'s trace")


def _loss_failure(
    one: dict[int, np.ndarray],
    first: int,
    other: dict[int, np.ndarray],
    second: int,
    names: tuple[str, str],
    found: Certificate,
) -> str:
    """The first loss that is not finite or too far from its partner, in words; '' where all agree."""
    a, b = one.get(first), other.get(second)
    if a is None or b is None:
        if names[1] != "reference":
            found.missing = found.missing or f"no loss of {names[0] if a is None else names[1]}"
        return ""
    for step, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=False), start=1):
        if not (math.isfinite(x) and math.isfinite(y)):
            return f"loss {step} is not finite: {names[0]} {x:g}, {names[1]} {y:g}"
        apart = abs(x - y) / max(abs(x), abs(y)) if x != y else 0.0
        if apart > found.tolerance:
            numbers = f"{names[0]} {x:.9g}, {names[1]} {y:.9g}"
            return f"loss {step} differs by {apart:.2g} in relative terms, more than {found.tolerance:g}: {numbers}"
        found.losses += 1
        found.largest = max(found.largest, apart)
    return ""


def tolerance(fact: dict[str, Any], evidence: Evidence) -> float:
    """Largest relative difference of a loss for a trial's number format, device and precision."""
    allowed = RELATIVE_TOLERANCE.get(fact["dtype"], RELATIVE_TOLERANCE["float32"])
    if fact["device"] == "cpu":
        return allowed
    precision = evidence.precisions.get(fact["condition_id"], "float32")
    return max(allowed, PRECISION_TOLERANCE.get(precision, 0.0))


def _facts(trials: pd.DataFrame) -> dict[int, dict[str, Any]]:
    """Index label → the columns that matching looks at; a missing count is None."""
    columns = ["condition_id", "device", "dtype", "block", "parameters", "own_flops", "own_matrix_flops"]
    columns.append("traced_matrix_flops")
    table = trials[columns].astype(object).where(trials[columns].notna(), None)
    return dict(zip(table.index, records(table), strict=True))
