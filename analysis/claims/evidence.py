"""The trials of one study or of several, as claims ask for them: by their settings, and compared pair by pair."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import pandas as pd

from analysis.factors import places
from analysis.frames import records
from analysis.load import Journals
from analysis.pairing import find_pairs
from analysis.pairs import pairs_table
from analysis.tables import MEASURED, by_design
from runners.records import OutcomeKind


class Evidence:
    """All trials of the studies read. `margin` is the half-width of practical equality, as a ratio."""

    def __init__(self, journals: Journals, margin: float) -> None:
        self.journals, self.margin = journals, margin
        self.trials = by_design(journals)

    def setting(self, name: str, trials: pd.DataFrame | None = None) -> pd.Series:
        """The level of a setting for every trial, None where a trial's condition has no such setting."""
        trials = self.trials if trials is None else trials
        levels = [self.journals.conditions[condition].get(name) for condition in trials["condition_id"]]
        return pd.Series(levels, index=trials.index, dtype=object)

    def select(self, wanted: Mapping[str, Any], evidence: str = MEASURED) -> pd.DataFrame:
        """The trials whose settings are as wanted: setting → level, or a collection of levels."""
        chosen = self.trials["evidence"] == evidence
        for name, level in wanted.items():
            levels = level if isinstance(level, Collection) and not isinstance(level, str) else [level]
            chosen &= self.setting(name).isin(list(levels))
        return self.trials[chosen]

    def ok(self, wanted: Mapping[str, Any], evidence: str = MEASURED) -> pd.DataFrame:
        """As `select`, those that ended ok."""
        trials = self.select(wanted, evidence)
        return trials[trials["outcome"] == OutcomeKind.OK.value]

    def ratios(self, trials: pd.DataFrame, factor: tuple[str, ...]) -> list[dict[str, Any]]:
        """Every pair of levels of `factor` among these trials, all else equal: rows of `analysis.pairs`.

        Holm's family is the pairs of this question.
        """
        asked = set(trials["condition_id"])
        conditions = {one: settings for one, settings in self.journals.conditions.items() if one in asked}
        if not conditions:
            return []
        pairs = find_pairs(trials, places(conditions, factor))
        return records(pairs_table(pairs, trials, self.journals.evidence, self.margin))
