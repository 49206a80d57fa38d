"""The table of conditions: how often each was tried, how it ended, and what the launches that ended ok measured."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis import statistics
from runners.records import OutcomeKind

KEY = ["provenance_hash", "condition_id"]

#: Settings shown in the table beside the label.
SETTINGS = ["framework", "compile", "device", "chip", "allocation", "workload", "batch_size", "dtype"]

#: Means over launches: source column → column of the table.
MEANS = {
    "import_seconds": "import_seconds_mean",
    "compile_seconds": "compile_seconds_mean",
    "first_step_seconds": "first_step_seconds_mean",
    "trace_seconds": "trace_seconds_mean",
    "lower_seconds": "lower_seconds_mean",
}

#: Medians over launches: peaks come in steps, of which a mean would show none; counters have far outliers.
MEDIANS = {
    "host_baseline_bytes": "host_baseline_median_bytes",
    "host_peak_above_baseline_bytes": "host_peak_above_baseline_median_bytes",
    "device_live_peak_bytes": "device_live_peak_median_bytes",
    "device_pool_peak_bytes": "device_pool_peak_median_bytes",
    "process_peak_bytes": "process_peak_median_bytes",
    "device_total_used_bytes": "device_total_used_median_bytes",
    "device_fragmented_free_bytes": "device_fragmented_free_median_bytes",
    "minor_faults_per_step": "minor_faults_per_step_median",
    "system_seconds_per_step": "system_seconds_per_step_median",
}


def conditions_table(
    trials: pd.DataFrame, superseded: pd.DataFrame, labels: dict[str, str], swept: list[str]
) -> pd.DataFrame:
    """One row a condition and provenance. Only ok launches enter a value; failures stand beside it as counts."""
    grouped = trials.groupby(KEY, sort=False, dropna=False)
    table = grouped[[*SETTINGS, *swept]].first(skipna=False)
    table.insert(0, "label", [labels[condition] for condition in table.index.get_level_values("condition_id")])
    table["attempts_count"] = grouped.size()
    table = table.join(_outcome_counts(trials))
    again = superseded.groupby(KEY, dropna=False).size() if len(superseded) else pd.Series(dtype="int64")
    table["superseded_count"] = again.reindex(table.index).fillna(0).astype("Int64")
    table["oom_rate_ratio"] = table["oom_count"] / table["attempts_count"]
    values = _values(trials[trials["step_seconds"].notna()])
    table = table.join(values)
    table["launches_count"] = table["launches_count"].fillna(0).astype("Int64")
    table["interval_note"] = [_interval_note(n) for n in table["launches_count"]]
    return table.reset_index()


def _outcome_counts(trials: pd.DataFrame) -> pd.DataFrame:
    """A column of counts for every outcome there is, 0 where none ended so."""
    flags = {f"{kind.value}_count": trials["outcome"].eq(kind.value).astype("Int64") for kind in OutcomeKind}
    keys = [trials[name] for name in KEY]
    return pd.DataFrame(flags).groupby(keys, sort=False, dropna=False).sum()


def _values(ok: pd.DataFrame) -> pd.DataFrame:
    """Of the launches with a value: times averaged arithmetically, rates harmonically, peaks by their median."""
    grouped = ok.groupby(KEY, sort=False, dropna=False)
    seconds = grouped["step_seconds"].agg(["count", "mean", "std", "median", "min", "max"])
    count = seconds["count"].astype(float)
    factor = statistics.factor_of_mean(seconds["mean"], seconds["std"], count)
    table = pd.DataFrame(
        {
            "launches_count": seconds["count"].astype("Int64"),
            "step_seconds_mean": seconds["mean"],
            "step_seconds_low": seconds["mean"] / factor,
            "step_seconds_high": seconds["mean"] * factor,
            "step_seconds_median": seconds["median"],
            "step_seconds_min": seconds["min"],
            "step_seconds_max": seconds["max"],
            "step_seconds_sd": seconds["std"],
            "launch_cov_ratio": seconds["std"] / seconds["mean"],
        }
    )
    return table.join(_throughput(ok, table)).join(grouped[list(MEANS)].mean().rename(columns=MEANS)).join(_peaks(ok))


def _throughput(ok: pd.DataFrame, seconds: pd.DataFrame) -> pd.DataFrame:
    """Harmonic mean of the launches' throughput; its interval is the step time's, turned into a rate.

    The work of a step is the same in all launches of a condition, so that this is work ÷ mean step time.
    """
    with np.errstate(divide="ignore"):
        mean = 1 / (1 / ok["examples_per_second"]).groupby([ok[name] for name in KEY], sort=False, dropna=False).mean()
    work = mean * seconds["step_seconds_mean"]
    low, high = work / seconds["step_seconds_high"], work / seconds["step_seconds_low"]
    return pd.DataFrame(
        {
            "examples_per_second_harmonic_mean": mean,
            "examples_per_second_low": low,
            "examples_per_second_high": high,
        }
    )


def _peaks(ok: pd.DataFrame) -> pd.DataFrame:
    values = ok[list(MEDIANS)].astype(float)
    medians = values.groupby([ok[name] for name in KEY], sort=False, dropna=False).median()
    return medians.rename(columns=MEDIANS)


def _interval_note(n: int) -> str:
    return {0: "n = 0: no value", 1: "n = 1: no interval"}.get(n, f"n = {n}")


def compiled_table(trials: pd.DataFrame, labels: dict[str, str]) -> pd.DataFrame:
    """One row a compiled trial: what the compiler planned for a chip that was not there. Nothing here was measured."""
    planned = [name for name in trials.columns if name.startswith(("planned_", "predicted_"))]
    columns = [*KEY, *SETTINGS, "outcome", "reason", "outcome_text", *planned, "usable_bytes", "fits"]
    columns += ["predicted_bound", "bytes_asked", "bytes_available", "own_matrix_flops", "flops_source", "bridge"]
    columns += ["target", "compiler", "plan_cached", "warnings"]
    columns = list(dict.fromkeys(columns))
    table = trials[columns].copy()
    table.insert(0, "label", [labels[condition] for condition in table["condition_id"]])
    return table.reset_index(drop=True)
