"""study.dry_run=true: what would run, what has no meaning here and why, and about how long it would take."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from runners.records import Evidence
from study.applicability import evidence
from study.caution import caution
from study.config import Condition
from study.design import Design
from study.matrix import what_is_set
from study.progress import label

#: Seconds from the launch to the first step and from the last to the end, as seen on two cores; a guess elsewhere.
START_SECONDS = {("jax", "spawn"): 3.0, ("tf", "spawn"): 9.0, ("jax", "zygote"): 1.5, ("tf", "zygote"): 2.5}


def show(design: Design, console: Console, theme: str | None = None, jobs: str = "") -> None:
    """Print the conditions, their blocks and the estimated time; `theme` heads one study of several.

    `jobs` says what would go out to other machines.
    """
    counted = f"{len(design.conditions)} conditions, {design.blocks} blocks, seed {design.seed}"
    table = Table(title=f"{theme}: {counted}" if theme else counted, title_justify="left")
    for heading in ("condition", "runs", "what is set, or why not"):
        table.add_column(heading, overflow="fold")
    varying = design.telling()
    said = ""
    for condition in design.conditions:
        outcome = design.unlaunched.get(condition.condition_id)
        repeated = evidence(condition) is Evidence.MEASURED
        runs = str(design.blocks if repeated else 1) if outcome is None else str(outcome.kind)
        text = _settings(condition) if outcome is None else outcome.text
        table.add_row(label({**condition.settings}, varying), runs, "as above" if outcome and text == said else text)
        said = text
    console.print(table)
    console.print(f"pairs differ in: {design.primary}; estimated time: about {_duration(seconds(design))}")
    if jobs:
        console.print(jobs, markup=False, highlight=False, soft_wrap=True)
    caution(design, console)


def seconds(design: Design) -> float:
    """A rough estimate: start, warm-up and windows as the protocol asks, compile times unknown."""
    launched = [one for one in design.conditions if one.condition_id not in design.unlaunched]
    return design.blocks * sum(_trial_seconds(one) for one in launched)


def _trial_seconds(condition: Condition) -> float:
    protocol = condition.protocol
    start = START_SECONDS.get((condition.framework.name, condition.start), 10.0)
    return start + protocol.warmup_seconds + 1.2 * (protocol.windows + 2) * protocol.window_seconds


def _settings(condition: Condition) -> str:
    if evidence(condition) is Evidence.COMPILED:
        return f"compiled for {condition.device.chip or condition.device.kind}, not measured"
    assert condition.entry is not None, "a condition without an entry is never launched"
    entry = condition.entry
    parts = what_is_set(entry, _capped(condition))
    parts += [entry.note] if entry.note else []
    return ", ".join(parts) or "nothing"


def _capped(condition: Condition) -> bool:
    return condition.allocation.fraction is not None or condition.allocation.limit_bytes is not None


def _duration(total: float) -> str:
    return f"{total:.0f} s" if total < 120 else f"{total / 60:.0f} min"
