"""The tests of the match certificate on one trial against another, and what they add up to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from analysis import products
from analysis.journal_reader import Evidence
from analysis.matching import INPUTS_HINT

MATCHED, NOT_MATCHED, NOT_CHECKABLE = "matched", "not matched", "not checkable"

#: The tests of equality, and what is compared in each; the input is hashed and losses are shown in measured trials,
#: bytes are planned in compiled ones.
COUNTS = {"parameters_equal": "parameters", "own_flops_equal": "own_flops"}
MEASURED = {**COUNTS, "input_hash_equal": "input_hash"}
COMPILED = {
    **COUNTS,
    "argument_bytes_equal": "planned_argument_bytes",
    "output_bytes_equal": "planned_output_bytes",
}
FLOPS_TEST, LOSS_TEST = "matrix_flops_within", "losses_within"
TESTS = (*COUNTS, FLOPS_TEST, "input_hash_equal", LOSS_TEST, "argument_bytes_equal", "output_bytes_equal")

Facts = dict[str, Any]


class Work(NamedTuple):
    """What a line is about; `device` is part of it because the tolerance of losses depends on it."""

    provenance_hash: str
    evidence: str
    device: str
    workload: str
    size: str | None
    mode: str | None
    dtype: str
    precision: str
    framework_a: str
    framework_b: str


@dataclass
class Line:
    """What the comparisons of one kind of work have shown so far; `failure` and `missing` are the first ones met.

    The largest differences are relative; NaN before the first one.
    """

    tolerance: float
    comparisons: int = 0
    tests: dict[str, bool | None] = field(default_factory=dict)
    losses: int = 0
    largest_loss: float = math.nan
    largest_flops: float = math.nan
    failure: str = ""
    missing: str = ""

    def note(self, test: str, held: bool | None, text: str) -> None:
        """One outcome of a test; `text` says what failed or, where `held` is None, what is missing."""
        before = self.tests.get(test, True)
        self.tests[test] = False if before is False or held is False else None if before is None else held
        if held is False:
            self.failure = self.failure or text
        elif held is None:
            self.missing = self.missing or text


def compare_values(a: Facts, b: Facts, tests: dict[str, str], work: Work, line: Line) -> None:
    """The tests of equality between one trial and another."""
    for test, name in tests.items():
        said = name.replace("_", " ").removeprefix("planned ").replace("own flops", "own FLOPs")
        if a[name] is None and b[name] is None and name in COUNTS.values():
            line.note(test, None, f"the workload counts no {said}; counts(workload) on its page would")
        elif a[name] is None or b[name] is None:
            line.note(test, None, f"no {said} of {work.framework_a if a[name] is None else work.framework_b}")
        else:
            values = f"{work.framework_a} {_shown(a[name])}, {work.framework_b} {_shown(b[name])}"
            hint = INPUTS_HINT if name == "input_hash" else ""
            line.note(test, a[name] == b[name], f"{said} not equal: {values}{hint}")


def compare_flops(sides: list[Facts], counted: str, work: Work, line: Line) -> None:
    """Products and convolutions that a framework holds against the workload's own count, each side for itself; where
    the workload counts none, against the other's.

    Exempt are workloads without products, and measured trials whose trace was not counted.
    """
    names = work.framework_a, work.framework_b
    if all(fact["own_matrix_flops"] is None for fact in sides):
        found = sides[0][counted], sides[1][counted]
        if None not in found:
            failed = products.mutual_failure(*found, names)
            line.largest_flops = np.fmax(line.largest_flops, products.between(*found))
            line.note(FLOPS_TEST, not failed, failed)
        return
    for fact, name in zip(sides, names, strict=True):
        own, found = fact["own_matrix_flops"], fact[counted]
        if not own or (found is None and counted == "traced_matrix_flops"):
            continue
        if found is None:
            line.note(FLOPS_TEST, None, f"no FLOPs of products in {name}'s lowered module")
            continue
        failed = products.failure(own, found, name)
        line.largest_flops = np.fmax(line.largest_flops, products.apart(own, found))
        line.note(FLOPS_TEST, not failed, failed)


def compare_losses(first: int, second: int, evidence: Evidence, work: Work, line: Line) -> None:
    """Losses of one trial against the other's, and of each against the reference where there is one."""
    losses, reference = evidence.losses, evidence.reference_losses
    names = work.framework_a, work.framework_b
    for label, name in zip((first, second), names, strict=True):
        if label not in losses:
            line.note(LOSS_TEST, None, f"no losses of {name}")
            return
    partners = [(losses[first], losses[second], f"{names[0]} and {names[1]}")]
    partners += [
        (losses[label], reference[label], f"{name} and the reference")
        for label, name in zip((first, second), names, strict=True)
        if label in reference
    ]
    for a, b, said in partners:
        apart = relative_differences(a, b)
        largest = float(apart.max(initial=0.0))
        line.losses += len(apart)
        line.largest_loss = np.fmax(line.largest_loss, largest)
        text = f"losses differ by {largest:.2g} in relative terms, more than {line.tolerance:g}: {said}"
        if math.isinf(largest):
            text = f"loss {int(np.isinf(apart).argmax()) + 1} is not finite: {said}"
        line.note(LOSS_TEST, largest <= line.tolerance, text)


def relative_differences(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a − b| over the larger magnitude, for the steps that both have; infinite where one of them is not finite."""
    steps = min(len(a), len(b))
    a, b = a[:steps], b[:steps]
    with np.errstate(invalid="ignore"):
        distance, scale = np.abs(a - b), np.maximum(np.abs(a), np.abs(b))
        apart = distance / np.where(scale == 0, 1.0, scale)
    # inf − inf and inf ÷ inf are no numbers
    return np.where(np.isfinite(distance), apart, np.inf)


def verdict(line: Line) -> tuple[str, str]:
    """The line's answer, and the first test that failed or could not be made."""
    if line.failure:
        return NOT_MATCHED, line.failure
    if not line.comparisons:
        return NOT_CHECKABLE, "no block in which both ended ok"
    return (NOT_CHECKABLE, line.missing) if line.missing else (MATCHED, "")


def _shown(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
