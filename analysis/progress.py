"""What was planned and what is done: the report of an unfinished study says 3/64."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pandas as pd

from analysis.load import Journals
from runners.records import OutcomeKind

COLUMNS = ("study", "condition_id", "label", "planned_trials_count", "done_trials_count", "missing_trials_count")


def progress_table(journals: Journals, labels: dict[str, str]) -> pd.DataFrame:
    """One row a planned condition. The last session of a study has the design that counts.

    A condition that was not launched (it has no meaning or cannot run here) or that was compiled needs one record.
    """
    done = _done(journals.trials)
    rows = []
    # a worker's session has no design of its own
    designed = {session.study: session.design for session in journals.sessions if session.design.get("conditions")}
    for study, design in designed.items():
        blocks = max(int(design.get("blocks") or 0), 1)
        entries = [_condition_id(entry) for entry in design.get("conditions") or []]
        replicates = Counter(journals.canonical.get(entry, entry) for entry in entries)
        for condition, number in replicates.items():
            found, single = done.get((study, condition), (0, False))
            missing = 0 if single else max(blocks * number - found, 0)
            rows.append((study, condition, labels.get(condition, condition), found + missing, found, missing))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _condition_id(entry: Any) -> str:
    return str(entry["condition_id"] if isinstance(entry, dict) else entry)


def _done(trials: pd.DataFrame) -> dict[tuple[str, str], tuple[int, bool]]:
    """(study, condition) → trials with a record, and whether one record is all that is planned."""
    unlaunched = (trials["outcome"] == OutcomeKind.NOT_APPLICABLE.value) | (trials["start"] == "not launched")
    table = trials.assign(single=unlaunched | (trials["evidence"] == "compiled"))
    summary = table.groupby(["study", "condition_id"], dropna=False)["single"].agg(["size", "any"])
    return {key: (int(size), bool(single)) for key, size, single in summary.itertuples(name=None)}
