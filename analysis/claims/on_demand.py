"""P6: what it costs to take every buffer from the system and to give it back."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from analysis import words
from analysis.claims.base import Claim, Finding, Kind, Verdict
from analysis.claims.evidence import Evidence
from analysis.labels import framework_label

#: On demand, buffer by buffer; every other mode that was measured beside it keeps what is freed.
ON_DEMAND = "platform"
MODE = ("allocation", "allocation.fraction", "allocation.limit_bytes")


def judge(evidence: Evidence) -> Iterator[Finding]:
    """One finding a device: `platform` against each pool, in every cell of framework and workload."""
    for device in ("gpu", "cpu"):
        trials = evidence.select({"device": device, "workload.donate": False})
        cells: dict[str, list[dict[str, Any]]] = {}
        for row in evidence.ratios(trials, MODE):
            pair = _against_pool(evidence, row)
            if pair is not None:
                cells.setdefault(_cell(evidence, pair), []).append(pair)
        slower = {cell: worst for cell, rows in cells.items() if (worst := _slower(rows))}
        alike = {cell: _widest(rows) for cell, rows in cells.items() if all(_no_slower(row) for row in rows)}
        open_ = {cell: _widest(rows) for cell, rows in cells.items() if cell not in {**slower, **alike}}
        if cells:
            yield _finding(evidence, device, slower, alike, open_)


def _finding(
    evidence: Evidence, device: str, slower: dict[str, Any], alike: dict[str, Any], open_: dict[str, Any]
) -> Finding:
    """All cells decide together: what is undecided in one (its intervals are too wide) is not settled by the others."""
    groups = {"slower in": slower, "not in": alike, "undecided in": open_}
    present = [f"{name} {words.listed(cells)}" for name, cells in groups.items() if cells]
    verdicts = {"slower in": Verdict.SUPPORTED, "not in": Verdict.REFUTED, "undecided in": Verdict.NOT_TESTABLE}
    only = [verdicts[name] for name, cells in groups.items() if cells]
    verdict = only[0] if len(only) == 1 else Verdict.DEPENDS
    parts = [_sentence(evidence, cell, row) for cells in groups.values() for cell, row in cells.items()]
    text = "; ".join(parts) + (" (undecided: more blocks would tell, study.blocks)" if open_ else "")
    return Finding(Kind.MEASURED, verdict, f"this {device.upper()}", text, f"the step: {'; '.join(present)}")


def _against_pool(evidence: Evidence, row: dict[str, Any]) -> dict[str, Any] | None:
    """The pair with the on-demand side as a; None where it is no such pair, or where no block has both."""
    if not row["blocks_count"]:
        return None
    on_demand = [_mode(evidence, row[f"condition_{side}"]) == ON_DEMAND for side in "ab"]
    if on_demand == [True, False]:
        return row
    return _turned(row) if on_demand == [False, True] else None


def _mode(evidence: Evidence, condition: str) -> str:
    return str(evidence.journals.conditions[condition]["allocation"])


def _turned(row: dict[str, Any]) -> dict[str, Any]:
    """The same pair seen from the other side."""
    opposite = {"FASTER": "SLOWER", "SLOWER": "FASTER"}
    return {
        **row,
        "level_a": row["level_b"],
        "level_b": row["level_a"],
        "condition_a": row["condition_b"],
        "condition_b": row["condition_a"],
        "time_ratio": 1 / row["time_ratio"],
        "time_ratio_low": 1 / row["time_ratio_high"],
        "time_ratio_high": 1 / row["time_ratio_low"],
        "verdict": opposite.get(row["verdict"], row["verdict"]),
    }


def _slower(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The pair with the highest ratio among those that are slower beyond the margin."""
    found = [row for row in rows if row["verdict"] == "SLOWER" and row["time_ratio"] > 1 + row["margin_ratio"]]
    return max(found, key=lambda row: row["time_ratio"], default=None)


def _no_slower(row: dict[str, Any]) -> bool:
    return row["verdict"] in ("EQUIVALENT", "DIFFERENT BUT SMALL", "FASTER")


def _widest(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return max(rows, key=lambda row: abs(math.log(row["time_ratio"])))


def _cell(evidence: Evidence, row: dict[str, Any]) -> str:
    settings = evidence.journals.conditions[row["condition_a"]]
    return f"{framework_label(settings['framework'], settings['compile'])} {settings['workload']}"


def _sentence(evidence: Evidence, cell: str, row: dict[str, Any]) -> str:
    value, low, high = (words.ratio(row[f"time_ratio{end}"]) for end in ("", "_low", "_high"))
    ratio = f"{value} ({'n = 1: no interval' if row['blocks_count'] == 1 else f'{low}–{high}'})"
    pool = _mode(evidence, row["condition_b"])
    faults = [_faults(evidence, row[f"condition_{side}"]) for side in "ab"]
    read_back = f", {faults[0]} page faults a step against {faults[1]}" if None not in faults else ""
    return f"{cell}: {ratio} of the time under {pool}{read_back}"


def _faults(evidence: Evidence, condition: str) -> str | None:
    trials = evidence.trials[evidence.trials["condition_id"] == condition]
    value = trials["minor_faults_per_step"].median()
    return None if math.isnan(value) else f"{value:,.0f}"


ON_DEMAND_COST = Claim(
    name="P6",
    statement="Allocating on demand instead of from a pool costs throughput.",
    question="Is a step slower when every buffer comes from the system and goes back to it?",
    metric="step time under allocation=platform ÷ under each mode that keeps freed memory; state not donated",
    margin="± 2 % (--margin)",
    test="paired t test and two one-sided tests over blocks, Holm over all pairs of a device; supported: slower than a "
    "pool in every cell of framework and workload; refuted: in none; depends: in some, or undecided in some",
    needs="a CPU with glibc and one other malloc, or a GPU",
    documented="JAX's guide to GPU memory calls XLA_PYTHON_CLIENT_ALLOCATOR=platform very slow; of growth without "
    "preallocation it says nothing of the kind",
    judge=judge,
)
