"""How the study was done, in sentences with its own numbers: the method section of the paper and of the artifact."""

from __future__ import annotations

import pandas as pd

from analysis import words
from analysis.load import Journals
from analysis.pairs import INTERLEAVED
from analysis.statistics import ALPHA
from analysis.tables import Tables
from runners.records import OutcomeKind


def paragraphs(journals: Journals, tables: Tables) -> list[tuple[str, str]]:
    """(heading, text) of every part of the method, in order."""
    measured = [
        ("One trial", _trial(journals, tables.trials)),
        ("Comparison", _comparison(tables)),
        ("Averages", _averages()),
        ("Memory", _memory()),
        ("Same work", _matching(tables)),
    ]
    return [
        ("Design", _design(journals, tables)),
        *(measured if len(tables.trials) else []),
        *([("Sharing", _sharing(tables))] if len(tables.tenants) else []),
        *([("Compiled evidence", _compiled(tables.compiled))] if len(tables.compiled) else []),
        ("Failures and exclusions", exclusions(journals, tables)),
        ("Compute spent", compute(journals)),
    ]


def _design(journals: Journals, tables: Tables) -> str:
    designs = [session.design for session in journals.sessions]
    seeds, blocks = (
        words.listed(design.get(key) for design in designs if design.get(key) is not None) for key in ("seed", "blocks")
    )
    factors = {str(name): levels for design in designs for name, levels in (design.get("factors") or {}).items()}
    swept = "; ".join(f"{name}: {words.listed(levels)}" for name, levels in factors.items())
    done, planned = (int(tables.progress[f"{name}_trials_count"].sum()) for name in ("done", "planned"))
    return (
        f"{words.count(len(journals.conditions), 'condition')} ({swept or 'no factor was swept'}) in randomised "
        f"complete blocks: every condition runs once a block, in an order shuffled by the study's seed (seed "
        f"{seeds or 'not recorded'}; blocks {blocks or 'not recorded'}). {done:,} of {planned:,} planned trials are "
        "done. Every trial is a process of its own. That launch is the replicate: the steps inside it are not."
    )


def _trial(journals: Journals, trials: pd.DataFrame) -> str:
    asked = {key: _setting(journals, f"protocol.{key}") for key in ("warmup_steps", "warmup_seconds", "window_seconds")}
    steady = int(trials["steady"].eq(False).sum())
    return (
        f"A trial imports its framework, compiles, takes a first step, then warms up (asked for: at least "
        f"{asked['warmup_steps']} steps and {asked['warmup_seconds']} s). Then it times windows of K steps each, "
        f"with K calibrated once so that a window lasts {asked['window_seconds']} s or more: "
        f"{_range(trials['windows'])} windows a trial, K = {_range(trials['steps_per_window'])}, median window "
        f"{_range(trials['window_seconds_median'] * 1e3)} ms. A window ends when all results exist, and one number "
        f"that depends on all of them has been fetched. The trial's value is its median window divided by K. "
        f"{words.count(steady, 'trial')} had not reached a steady state at the end of warm-up."
    )


def _comparison(tables: Tables) -> str:
    pairs = tables.pairs
    tested = int(pairs["p_value"].notna().sum())
    windowed = int(pairs["method"].str.contains(INTERLEAVED).sum())
    margin = float(pairs["margin_ratio"].iloc[0]) if len(pairs) else 0.02
    return (
        "Trials of one block are compared as the logarithm of the ratio of their times. Where both took turns on the "
        f"machine window by window, that is the median over neighbouring windows ({windowed} of "
        f"{words.count(len(pairs), 'comparison')}), otherwise it is the ratio of the two values. The effect is the "
        f"mean over blocks with a {1 - ALPHA:.0%} t interval; the Hodges–Lehmann estimate stands beside it. p values "
        f"are adjusted by Holm over the {tested} comparisons that can be tested. Equal in practice means within "
        f"±{margin:.2g} by two one-sided tests, adjusted likewise. The paired standard deviation reached was "
        f"{_range(pairs['paired_sd_log'] * 100)} %. Only cells that both sides have are compared."
        f"{_apart(tables.trials)}"
    )


def _apart(trials: pd.DataFrame) -> str:
    """A sentence where trials ran on unlike machines; empty where all could be compared."""
    kinds = trials["provenance_hash"].nunique()
    if kinds < 2:
        return ""
    return (
        f" The trials ran under {kinds} provenances (kinds of machine, or versions); trials of different provenance "
        "are not paired."
    )


def _averages() -> str:
    return (
        "Step times of a condition's launches average arithmetically, throughputs harmonically. The interval of the "
        f"mean is Student's with {1 - ALPHA:.0%}, made for its logarithm (standard error of the mean over the mean) "
        "and turned back: mean ÷ f to mean × f. A time cannot be negative, and neither can its interval."
    )


def _memory() -> str:
    return (
        "Host memory is the highest resident size of the trial's process less its baseline, read after the import and "
        "before the workload. Live bytes, pool bytes and the driver's count are kept apart, and a counter that this "
        "machine does not have is missing, never zero. Memory of a condition is the median over its launches."
    )


def _sharing(tables: Tables) -> str:
    whole = int((tables.colocation["ok_count"] == tables.colocation["tenants_count"]).sum())
    share = tables.tenants["overlap_share_ratio"].dropna() * 100
    return (
        f"Companies of {words.listed(tables.tenants['colocation'].unique())} shared the device: their trials opened it "
        "once each had imported its framework, began their windows together, and went on stepping until the last had "
        "measured. A tenant's slow-down is its step time over that of the same condition alone in the same block; the "
        f"effect is the geometric mean over blocks with a {1 - ALPHA:.0%} t interval. In {whole} of "
        f"{words.count(len(tables.colocation), 'run')} every tenant ended ok, and only these count; {_range(share)} % "
        "of a tenant's windows had the company of all others from end to end."
    )


def _matching(tables: Tables) -> str:
    match = tables.pairs["match"]
    right, wrong = int(match.eq(True).sum()), int(match.eq(False).sum())
    worst = tables.match["largest_relative_difference_ratio"].max()
    far = "" if words.is_missing(worst) else f" The largest relative difference of a loss was {worst:.2g}."
    return (
        f"Both sides of a comparison must get the same input bytes, report the same parameters and FLOPs, and show the "
        f"same losses in their first steps. {words.count(right, 'comparison')} matched, {wrong} did not, "
        f"{len(match) - right - wrong} could not be checked.{far}"
    )


def _compiled(compiled: pd.DataFrame) -> str:
    targets = words.listed(compiled["chip"].dropna().unique())
    return (
        f"{words.count(len(compiled), 'trial')} ran nothing: the step was lowered by its framework and compiled for a "
        f"chip that was not there ({targets or 'none named'}). One peak is defined for every compiler: arguments + "
        "results − aliased + temporaries + code. A predicted step time is the larger of FLOPs over peak rate and bytes "
        "over bandwidth by the data sheet. Compiled and measured numbers share no table, figure or mean."
    )


def exclusions(journals: Journals, tables: Tables) -> str:
    """What is not in the averages, and why."""
    counts = journals.trials["outcome"].value_counts(sort=False)
    bad = {kind: int(number) for kind, number in counts.items() if kind != OutcomeKind.OK}
    ended = ", ".join(f"{number:,} {kind}" for kind, number in bad.items()) or "none"
    lost = int((~journals.bad_lines["kept"].astype(bool)).sum())
    return (
        f"Trials that did not end ok: {ended} (of {len(journals.trials):,}). They are counted beside every number and "
        f"never averaged. {words.count(len(tables.superseded), 'attempt')} were repeated in the same place of the "
        f"design and replaced. {words.count(lost, 'journal line')} could not be read. Outlying windows and launches "
        "are classified and kept; none was dropped."
    )


def compute(journals: Journals) -> str:
    """Time spent in trials, failed and repeated ones included."""
    every = pd.concat([journals.trials, journals.superseded])
    seconds = every["elapsed_seconds"].fillna(0.0)
    good = every["outcome"].eq(OutcomeKind.OK.value)
    return (
        f"{words.count(len(every), 'trial')}, repeated attempts included, lived for {words.duration(seconds.sum())} "
        f"altogether (trials that take turns live at the same time), of which {words.duration(seconds[~good].sum())} "
        "in trials that did not end ok."
    )


def _setting(journals: Journals, key: str) -> str:
    """The values of a setting over all conditions, in words."""
    found = (settings.get(key) for settings in journals.conditions.values())
    return words.listed(value for value in found if value is not None) or "not recorded"


def _range(values: pd.Series) -> str:
    """`12`, or `12 to 480`: the least and the greatest with three significant digits."""
    present = values.dropna().astype(float)
    if present.empty:
        return "no"
    ends = (float(present.min()), float(present.max()))
    return " to ".join(dict.fromkeys(f"{end:,.0f}" if end.is_integer() else words.significant(end) for end in ends))
