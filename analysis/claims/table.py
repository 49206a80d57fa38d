"""tables/claims.csv: one row a claim, with its rule, the evidence that was used, and the verdict."""

from __future__ import annotations

import pandas as pd

from analysis.claims.base import Answer, Verdict
from analysis.claims.evidence import Evidence

#: Column → what it holds.
COLUMNS = {
    "claim": "P1 to P6 and T1 to T6",
    "statement": "what is said",
    "question": "what was asked of the evidence",
    "verdict": "supported, refuted, depends, or not testable here",
    "depends_on": "what the answer hangs on; empty otherwise",
    "evidence": "where the verdict comes from: measured on, compiled for, modelled for; empty without one",
    "found": "the numbers, of every kind of evidence",
    "trials": "trials of the studies that were read (measured and compiled)",
    "metric": "rule: the quantity",
    "margin": "rule: what counts as no difference",
    "test": "rule: how the verdict follows",
    "needs": "what must be there for the claim to be tested",
    "documented": "what the primary sources say: context, no verdict",
}


def claims_table(answers: list[Answer], evidence: Evidence) -> pd.DataFrame:
    """One row a claim, in order; all columns str but `trials` (int64)."""
    rows = [_row(one, len(evidence.trials)) for one in answers]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _row(one: Answer, trials: int) -> dict[str, object]:
    claim = one.claim
    return {
        "claim": claim.name,
        "statement": claim.statement,
        "question": claim.question,
        "verdict": one.verdict.value,
        "depends_on": one.depends_on,
        "evidence": "; ".join(
            f"{finding.kind} {_preposition(finding.kind)} {finding.where}" for finding in one.findings
        ),
        "found": "; ".join(finding.text for finding in one.findings),
        "trials": trials,
        "metric": claim.metric,
        "margin": claim.margin,
        "test": claim.test,
        "needs": claim.needs,
        "documented": claim.documented,
    }


def _preposition(kind: str) -> str:
    return "on" if kind == "measured" else "by"


def sentence(row: dict[str, object]) -> str:
    """A claim and its verdict as they are said."""
    verdict = str(row["verdict"])
    if verdict == Verdict.NOT_TESTABLE:
        return f"{row['claim']}: {verdict}, it needs {row['needs']}"
    return f"{row['claim']}: {verdict}" + (f" on {row['depends_on']}" if row["depends_on"] else "")
