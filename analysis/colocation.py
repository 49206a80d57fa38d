"""Trials that shared a device: what became of all of them, what it cost each against being alone, and their memory.

The slow-down of a tenant is its step time over that of the same condition alone (solo) in the same block, so that both
met the machine in the same state; only companies in which every tenant ended ok count, for only there was the load what
its name says. The sum of the inverse slow-downs is the throughput of the whole against one device per tenant: above 1,
sharing does more than taking turns would (system throughput of Eyerman & Eeckhout, IEEE Micro 28(3), 2008).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from analysis import statistics, words
from analysis.factors import differing, without_company
from analysis.frames import is_mixed, records
from analysis.labels import cell_label, framework_label
from analysis.load import Journals
from runners.records import OutcomeKind

#: Settings that a company's tenants may differ in, or that name the company.
OF_THE_COMPANY = ("framework", "compile", "framework.python", "colocation", "colocation.tenant")

COMPANY_COLUMNS = (
    "provenance_hash", "study", "colocation", "cell", "block", "tenants_count", "ok_count", "outcomes",
    "time_ratio_geometric_mean", "system_throughput_ratio", "overlap_share_ratio", "host_peak_total_bytes",
    "host_peak_above_baseline_total_bytes", "device_live_peak_total_bytes", "device_pool_peak_total_bytes",
    "process_peak_total_bytes", "note",
)  # fmt: skip

TENANT_COLUMNS = (
    "provenance_hash", "condition_id", "label", "colocation", "tenants_count", "tenant", "framework", "cell",
    "attempts_count", "ok_count", "whole_blocks_count", "blocks_count", "time_ratio", "time_ratio_low",
    "time_ratio_high", "paired_sd_log", "overlap_share_ratio", "note",
)  # fmt: skip

#: Columns of the trials whose sum over the tenants is shown: each tenant's own highest, whenever that was. Resident
#: memory counts a page that processes share once for each of them; above the baseline there are hardly any.
TOTALS = (
    "host_peak_bytes", "host_peak_above_baseline_bytes", "device_live_peak_bytes", "device_pool_peak_bytes",
    "process_peak_bytes",
)  # fmt: skip

#: (provenance, folder, block, the condition as if alone) → step times in seconds of its solo trials that ended ok.
Solo = dict[tuple[str, int, int, str], list[float]]


@dataclass
class Company:
    """The tenants of one block, by number; `whole`: all of them are there, of one session, and ended ok."""

    tenants: list[dict[str, Any]]
    whole: bool
    ratios: list[float | None]

    @property
    def overlaps(self) -> list[float]:
        """Of each tenant that measured, the share of its windows that had the company of all."""
        counted = [(one["overlapped_windows"], one["windows"]) for one in self.tenants]
        return [float(a) / float(b) for a, b in counted if not words.is_missing(a) and not words.is_missing(b)]


def colocation_tables(
    trials: pd.DataFrame, journals: Journals, labels: dict[str, str]
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row a company and block, and one row a tenant's condition: in that order. Empty where nothing was shared."""
    shared = trials[trials["_tenancy"].notna()]
    solo = _solo(trials, journals) if len(shared) else {}
    companies = list(_companies(shared, solo, journals))
    cells = _cells(shared, journals)
    blocks = pd.DataFrame([_company_row(one, cells) for one in companies], columns=list(COMPANY_COLUMNS))
    known = _solo_conditions(journals)
    tenants = pd.DataFrame(_tenant_rows(companies, cells, labels, known), columns=list(TENANT_COLUMNS))
    several = is_mixed(tenants["provenance_hash"])
    tenants["sentence"] = [sentence(row, several) for row in records(tenants)]
    counts = ["attempts_count", "ok_count", "whole_blocks_count", "blocks_count", "tenant", "tenants_count"]
    return blocks.astype({"block": "Int64"}), tenants.astype(dict.fromkeys(counts, "Int64"))


def _companies(shared: pd.DataFrame, solo: Solo, journals: Journals) -> Iterator[Company]:
    for _, group in shared.groupby(["provenance_hash", "_folder", "_tenancy"], sort=False):
        tenants = records(group.sort_values("colocation_tenant", kind="stable"))
        whole = (
            len(tenants) == tenants[0]["_tenants"]
            and len({one["session_id"] for one in tenants}) == 1
            and all(one["outcome"] == OutcomeKind.OK and not words.is_missing(one["step_seconds"]) for one in tenants)
        )
        yield Company(tenants, whole, [_ratio(one, solo, journals) if whole else None for one in tenants])


def _ratio(tenant: dict[str, Any], solo: Solo, journals: Journals) -> float | None:
    """Step time over that alone in the same block; repeats of the solo trial are averaged first."""
    alone = solo.get(_solo_key(tenant, journals), [])
    return float(tenant["step_seconds"]) / float(np.mean(alone)) if alone else None


def _solo(trials: pd.DataFrame, journals: Journals) -> Solo:
    found: Solo = {}
    for one in records(trials[trials["_tenancy"].isna() & trials["step_seconds"].notna()]):
        found.setdefault(_solo_key(one, journals), []).append(float(one["step_seconds"]))
    return found


def _solo_key(trial: dict[str, Any], journals: Journals) -> tuple[str, int, int, str]:
    does = _as_text(without_company(journals.conditions[trial["condition_id"]]))
    return trial["provenance_hash"], int(trial["_folder"]), int(trial["block"]), does


def _solo_conditions(journals: Journals) -> set[str]:
    """What the study asked for alone, run or not."""
    return {_as_text(one) for one in journals.conditions.values() if one == without_company(one)}


def _as_text(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True, default=str)


def _cells(shared: pd.DataFrame, journals: Journals) -> dict[str, tuple[str, str]]:
    """Condition id → (the condition alone as text, the label of what its company shares and others do not)."""
    conditions = {name: journals.conditions[name] for name in shared["condition_id"].unique()}
    shown = [key for key in differing(conditions) if key not in OF_THE_COMPANY]
    return {
        name: (_as_text(without_company(one)), cell_label(one, shown, OF_THE_COMPANY))
        for name, one in conditions.items()
    }


def _company_row(company: Company, cells: dict[str, tuple[str, str]]) -> tuple[Any, ...]:
    first, ratios = company.tenants[0], [one for one in company.ratios if one is not None]
    known = company.whole and len(ratios) == len(company.tenants)
    outcomes = [f"{one['colocation_tenant']} ({_framework(one)}): {one['outcome']}" for one in company.tenants]
    return (
        first["provenance_hash"],
        first["study"],
        first["colocation"],
        cells[first["condition_id"]][1],
        first["block"],
        first["_tenants"],
        sum(one["outcome"] == OutcomeKind.OK for one in company.tenants),
        "; ".join(outcomes),
        float(np.exp(np.mean(np.log(ratios)))) if known else math.nan,
        sum(1 / ratio for ratio in ratios) if known else math.nan,
        min(company.overlaps, default=math.nan),
        *(_total(company.tenants, column) for column in TOTALS),
        "" if known else _why_unknown(company),
    )


def _why_unknown(company: Company) -> str:
    if company.whole:
        return "no slow-down: not every tenant has a solo trial that ended ok in this block"
    return "no slow-down: not every tenant ended ok beside the others"


def _total(tenants: list[dict[str, Any]], column: str) -> float:
    """The sum over all tenants; missing where one is, as after a crash: a part would look like little memory."""
    values = [one[column] for one in tenants]
    complete = len(tenants) == tenants[0]["_tenants"] and not any(map(words.is_missing, values))
    return float(sum(values)) if complete else math.nan


def _tenant_rows(
    companies: list[Company],
    cells: dict[str, tuple[str, str]],
    labels: dict[str, str],
    solo_conditions: set[str],
) -> Iterator[tuple[Any, ...]]:
    seats: dict[tuple[str, str], list[tuple[Company, int]]] = {}
    for company in companies:
        for place, one in enumerate(company.tenants):
            seats.setdefault((one["provenance_hash"], one["condition_id"]), []).append((company, place))
    for (provenance, condition), taken in seats.items():
        tenants, whole = [company.tenants[place] for company, place in taken], [seat for seat in taken if seat[0].whole]
        first, logs = tenants[0], _log_ratios(whole)
        mean, low, high, deviation, n = statistics.t_interval(logs)
        shares = [_share(company.tenants[place]) for company, place in whole]
        yield (
            provenance,
            condition,
            labels[condition],
            first["colocation"],
            first["_tenants"],
            first["colocation_tenant"],
            _framework(first),
            cells[condition][1],
            len(tenants),
            sum(one["outcome"] == OutcomeKind.OK for one in tenants),
            len(whole),
            n,
            *(statistics.ratio(end) for end in (mean, low, high)),
            deviation,
            float(np.mean(shares)) if shares else math.nan,
            _note(n, len(whole), cells[condition][0] in solo_conditions),
        )


def _log_ratios(whole: list[tuple[Company, int]]) -> np.ndarray:
    """log(step time ÷ alone), one value a block: repeats within a block are averaged first."""
    found: dict[tuple[int, int], list[float]] = {}
    for company, place in whole:
        ratio, one = company.ratios[place], company.tenants[place]
        if ratio is not None:
            found.setdefault((one["_folder"], one["block"]), []).append(math.log(ratio))
    return np.array([np.mean(values) for values in found.values()], dtype=float)


def _share(tenant: dict[str, Any]) -> float:
    return float(tenant["overlapped_windows"]) / float(tenant["windows"])


def _note(n: int, whole: int, has_solo: bool) -> str:
    if n:
        return "n = 1: no interval" if n == 1 else f"n = {n}"
    if not has_solo:
        return "no slow-down: this condition was not run alone"
    if not whole:
        return "no slow-down: in no block did all tenants end ok"
    return "no slow-down: in no block did it end ok alone as well"


def _framework(trial: dict[str, Any]) -> str:
    return framework_label(trial["framework"], trial["compile"])


def sentence(row: dict[str, Any], several_provenances: bool) -> str:
    """A tenant's row as it is said, with n, and the share of its windows that had the company of all."""
    where = [f"machine {row['provenance_hash'][:8]}"] if several_provenances else []
    where += [row["cell"]] if row["cell"] else []
    who = f"{row['colocation']}, tenant {row['tenant']} ({row['framework']})"
    start = f"{', '.join(where)}{': ' if where else ''}{who}"
    if not row["blocks_count"]:
        return f"{start}: {row['note']}"
    ends = [row["time_ratio_low"], row["time_ratio_high"]] if row["blocks_count"] > 1 else []
    times = f"{start} takes {words.ratio(row['time_ratio'], *ends)} × its time alone"
    company = f"{row['overlap_share_ratio']:.0%} of its windows in whole company"
    if not ends:
        return f"{times} in the one whole block (n = 1: no interval), {company}"
    low, high = (words.ratio(end, row["time_ratio"], *ends) for end in ends)
    return f"{times} (95 % interval {low}–{high}, {row['blocks_count']} blocks), {company}"
