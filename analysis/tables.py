"""All tables of an analysis, built in one place, and how they are written as CSV."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis import (
    capacity,
    certificate,
    colocation,
    conditions,
    diagnostics,
    matching,
    modelled,
    pairs,
    plans,
    progress,
)
from analysis import waterfall as waterfalls
from analysis.certificate_tests import NOT_MATCHED
from analysis.columns import HIDDEN
from analysis.factors import differing, places, primary_settings
from analysis.labels import condition_labels
from analysis.load import Journals
from analysis.pairing import find_pairs
from runners.naming import telling

#: The `evidence` of trials that ran; everything else was only compiled. What is modelled on top of a plan is no trial.
MEASURED, COMPILED, MODELLED = "measured", "compiled", "modelled"


@dataclass
class Tables:
    """Everything that figures and reports show. `trials` and `conditions` are of measured trials, `compiled` the rest.

    `modelled` are the compiled plans under each allocation mode, by replay.
    Trials that only probed a batch (`search`) have no time to compare: they are in `capacity` and `outcomes` alone.

    `labels` maps condition ids to names; `primary` are the settings of the factor whose levels are compared.
    """

    trials: pd.DataFrame
    conditions: pd.DataFrame
    pairs: pd.DataFrame
    common_cells: pd.DataFrame
    outcomes: pd.DataFrame
    warnings: pd.DataFrame
    match: pd.DataFrame
    certificate: pd.DataFrame
    progress: pd.DataFrame
    superseded: pd.DataFrame
    bad_lines: pd.DataFrame
    compiled: pd.DataFrame
    plan_differences: pd.DataFrame
    capacity: pd.DataFrame
    timelines: pd.DataFrame
    modelled: pd.DataFrame
    colocation: pd.DataFrame
    tenants: pd.DataFrame
    waterfall: pd.DataFrame
    labels: dict[str, str]
    primary: tuple[str, ...]

    @property
    def compiled_capacity(self) -> pd.DataFrame:
        """The rows of `capacity` that were compiled, never run."""
        return self.capacity[self.capacity["evidence"] != MEASURED].reset_index(drop=True)

    @property
    def measured_capacity(self) -> pd.DataFrame:
        """The rows of `capacity` whose batches really ran."""
        return self.capacity[self.capacity["evidence"] == MEASURED].reset_index(drop=True)

    @property
    def mismatches(self) -> int:
        """Number of pairs, measured or planned, whose sides did not do the same work.

        Where the study compares something else than frameworks, only the certificate's lines may show it.
        """
        pairs = sum(int(table["match"].eq(False).fillna(False).sum()) for table in (self.pairs, self.plan_differences))
        return max(pairs, int(self.certificate["verdict"].eq(NOT_MATCHED).sum()))


def build_tables(journals: Journals, margin: float) -> Tables:
    """Journals → all tables. `margin` is the half-width of practical equality, as a ratio (0.02 for 2 %)."""
    trials = by_design(journals)
    ran, searched = trials["evidence"] == MEASURED, trials["search"].notna()
    measured, probes, planned = trials[ran & ~searched], trials[ran & searched], trials[~ran]
    probed = set(probes["condition_id"])
    labels = _labels(journals, set(planned["condition_id"]) - set(measured["condition_id"]), probed)
    apart = (set(planned["condition_id"]) | probed) - set(measured["condition_id"])
    asked = {c: s for c, s in journals.conditions.items() if c not in apart}
    primary = primary_settings(journals.sessions, asked or journals.conditions)
    found = find_pairs(measured, places(asked or journals.conditions, primary))
    compared = pairs.pairs_table(found, measured, journals.evidence, margin)
    matched = matching.match_table(found, measured, journals.evidence, primary)
    compared = pairs.with_sentences(compared.join(matched[["match", "match_reason"]]))
    companies, tenants = colocation.colocation_tables(measured, journals, labels)
    return Tables(
        trials=measured,
        conditions=conditions.conditions_table(measured, journals.superseded, labels, list(journals.swept.values())),
        pairs=compared,
        common_cells=pairs.common_cells_table(compared),
        outcomes=outcomes_table(trials, labels),
        warnings=diagnostics.warnings_table(measured, labels),
        match=compared[["provenance_hash", "cell", "level_a", "level_b"]].join(matched),
        certificate=certificate.certificate_table(measured, planned, journals),
        progress=progress.progress_table(journals, labels),
        superseded=superseded_table(journals.superseded, labels),
        bad_lines=journals.bad_lines,
        compiled=conditions.compiled_table(planned, labels),
        plan_differences=plans.differences_table(planned, journals),
        capacity=capacity.capacity_table(planned, probes, journals),
        timelines=plans.timelines_table(planned, journals, labels),
        modelled=modelled.modelled_table(planned, journals, labels),
        colocation=companies,
        tenants=tenants,
        waterfall=waterfalls.waterfall_table(measured, planned, journals, labels),
        labels=labels,
        primary=primary,
    )


def by_design(journals: Journals) -> pd.DataFrame:
    """The trials, sorted as the design lists the conditions; those of one condition stay in the order they ran in.

    Every table and figure takes its order from here. Machines follow each other as they first occur.
    """
    place = {condition: number for number, condition in enumerate(journals.conditions)}
    machine = {name: number for number, name in enumerate(journals.trials["provenance_hash"].unique())}
    table = journals.trials.assign(
        _machine=journals.trials["provenance_hash"].map(machine), _place=journals.trials["condition_id"].map(place)
    )
    return table.sort_values(["_machine", "_place"], kind="stable").drop(columns=["_machine", "_place"])


def outcomes_table(trials: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """Every way in which trials of a condition ended, with its number: the answer to "what failed, where, why"."""
    columns = ["provenance_hash", "condition_id", "evidence", "outcome", "phase", "reason", "outcome_text"]
    table = trials.groupby(columns, sort=False, dropna=False).size().rename("trials_count").reset_index()
    table.insert(2, "label", [labels[condition] for condition in table["condition_id"]])
    return table


def superseded_table(superseded: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """The attempts that a later record of the same trial replaced, kept in sight."""
    columns = ["trial_id", "provenance_hash", "condition_id", "block", "outcome", "phase", "reason", "outcome_text"]
    table = superseded[columns].reset_index(drop=True)
    return table.assign(label=[labels[condition] for condition in table["condition_id"]])


def _labels(journals: Journals, compiled: set[str], probed: set[str]) -> dict[str, str]:
    """Names of all conditions; measured, compiled and probed ones are each told apart by settings of their own."""
    groups = [
        {c: s for c, s in journals.conditions.items() if c not in compiled | probed},
        {c: s for c, s in journals.conditions.items() if c in compiled},
        {c: s for c, s in journals.conditions.items() if c in probed},
    ]
    return {
        c: label
        for group in groups
        for c, label in condition_labels(group, telling(differing(group), group.values())).items()
    }


#: The files of tables/, by the field of `Tables` that each holds.
ALWAYS_WRITTEN = (
    "conditions", "pairs", "common_cells", "outcomes", "warnings", "match", "certificate", "progress", "superseded",
    "bad_lines",
)  # fmt: skip
WRITTEN_IF_FILLED = (
    "compiled", "plan_differences", "capacity", "modelled", "colocation", "tenants", "waterfall",
)  # fmt: skip


def write_tables(journals: Journals, tables: Tables, folder: Path) -> None:
    """trials.csv, the same as trials.parquet, and tables/*.csv under `folder`.

    Tables of an earlier analysis that no longer exist are removed; files of any other name are left alone.
    """
    target = folder / "tables"
    target.mkdir(parents=True, exist_ok=True)
    for name, kind in itertools.product([*ALWAYS_WRITTEN, *WRITTEN_IF_FILLED], ("csv", "tex")):
        (target / f"{name}.{kind}").unlink(missing_ok=True)
    trials = journals.trials.drop(columns=[column.name for column in HIDDEN])
    write_csv(trials, folder / "trials.csv")
    trials.to_parquet(folder / "trials.parquet", index=False)
    filled = [name for name in WRITTEN_IF_FILLED if len(getattr(tables, name))]
    for name in [*ALWAYS_WRITTEN, *filled]:
        write_csv(getattr(tables, name), target / f"{name}.csv")


#: What a spreadsheet takes for a formula where a cell begins with it (OWASP, "CSV injection").
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def write_csv(table: pd.DataFrame, path: Path) -> None:
    """A CSV as UTF-8: missing is empty, booleans are true and false, floats are written so that they read back exactly.

    Read it with `keep_default_na=False` for the columns of names: a level may be called None, null or NA. A text that
    a spreadsheet would run as a formula gets an apostrophe in front; trials.parquet has it as it is.
    """
    flags = [name for name in table.columns if table[name].dtype in ("boolean", "bool")]
    texts = [name for name in table.columns if table[name].dtype in ("str", "object")]
    shown = table.assign(
        **{name: table[name].map({True: "true", False: "false"}) for name in flags},
        **{name: _without_formulas(table[name]) for name in texts},
    )
    shown.to_csv(path, index=False, lineterminator="\n", encoding="utf-8")


def _without_formulas(texts: pd.Series) -> pd.Series:
    """The column with an apostrophe before what begins as a formula does; a number such as -5 is none."""
    begins = texts.str.startswith(_FORMULA_STARTS, na=False).astype(bool)
    if not begins.any():
        return texts
    formulas = begins & pd.to_numeric(texts.where(begins), errors="coerce").isna()
    return texts.where(~formulas, "'" + texts.astype("str"))
