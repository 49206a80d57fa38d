"""What each allocation mode would take for a compiled plan: the allocators replayed. Neither measured nor compiled.

One row a compiled trial and mode on a GPU. A TPU has one mode and its allocator is not modelled: such a plan has one
row, with the reason. A plan for this machine's CPU has none. Parameters: the capacity is the chip's memory, a process
holds `CONTEXT_BYTES` of it beside its pool (assumed), the driver hands out 2 MiB pages (assumed), and the modes with a
fraction take `DEFAULT_FRACTION`.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.allocator_model import CONTEXT_BYTES, DEFAULT_FRACTION, MOST_TENANTS, Mode, modes, plan_trace, tenancy
from analysis.allocators.tenants import Chip
from analysis.allocators.traces import PlannedBuffers
from analysis.columns import Column
from analysis.frames import records
from analysis.load import Journals
from runners.records import OutcomeKind

_NEVER = "never"
_NOT_MODELLED = "the plan is not modelled: see note"

COLUMNS = (
    Column("provenance_hash", "str", "", "hash of machine and versions", _NEVER),
    Column("condition_id", "str", "", "hash of the condition whose plan is modelled", _NEVER),
    Column("label", "str", "", "the condition's name", _NEVER),
    Column("framework", "str", "", "jax or tf", _NEVER),
    Column("compile", "str", "", "jit (jax) or xla (tf)", _NEVER),
    Column("workload", "str", "", "workload page", _NEVER),
    Column("batch_size", "Int64", "examples", "examples a step", _NEVER),
    Column("chip", "str", "", "chip that was compiled for", _NEVER),
    Column("mode", "str", "", "allocation mode that is modelled", _NEVER),
    Column("modelled_capacity_bytes", "Int64", "B", "parameter: memory of the chip", _NOT_MODELLED),
    Column("modelled_context_bytes", "Int64", "B", "parameter: a process beside its pool (assumed)", _NOT_MODELLED),
    Column("modelled_fraction_ratio", "float64", "", "parameter: the share of modes with a cap", _NOT_MODELLED),
    Column("modelled_requested_bytes", "Int64", "B", "highest sum of sizes asked for", _NOT_MODELLED),
    Column("modelled_live_bytes", "Int64", "B", "highest bytes in use as the allocator counts them", _NOT_MODELLED),
    Column("modelled_pool_bytes", "Int64", "B", "most of the device's memory in the allocator's pool", _NOT_MODELLED),
    Column("modelled_process_bytes", "Int64", "B", "context, code and pool as the driver maps it", _NOT_MODELLED),
    Column(
        "modelled_fragmentation_ratio",
        "float64",
        "",
        "(free − largest free chunk) ÷ free in the pool, after the last step or at the refused request",
        "nothing was free, or the allocator's placement is not documented (async, platform)",
    ),
    Column("modelled_growth_events", "Int64", "", "calls for more of the driver's memory", _NOT_MODELLED),
    Column("modelled_fits", "boolean", "", "whether the first process gets all that it asks for", _NOT_MODELLED),
    Column(
        "modelled_tenants_count",
        "Int64",
        "",
        f"such processes side by side, started in turn; at most {MOST_TENANTS} are counted",
        _NOT_MODELLED,
    ),
    Column("note", "str", "", "why the plan is not modelled", "it is"),
)

TPU_NOTE = "a TPU's plug-in takes no allocation option; its allocator is not modelled"
NO_BUFFERS_NOTE = "the record holds no sizes of single buffers: compile the plan again"
NO_VERSION_NOTE = "the record holds no framework version, which decides what a mode does"

#: The parameters in words, for the report.
PARAMETERS = (
    f"A process holds {CONTEXT_BYTES / 2**20:,.0f} MiB beside its pool (assumed: context and kernels), the driver "
    "gives out pages of 2 MiB (assumed), the capacity is all of the chip's memory, and the modes with a fraction take "
    f"{DEFAULT_FRACTION:g}. Processes are started in turn, each keeps its peak; at most {MOST_TENANTS} are counted."
)


def modelled_table(planned: pd.DataFrame, journals: Journals, labels: dict[str, str]) -> pd.DataFrame:
    """One row a plan that was made and mode, with the columns of `COLUMNS`."""
    made = planned[(planned["outcome"] == OutcomeKind.OK.value) & planned["chip"].notna()]
    rows: list[dict[str, Any]] = []
    for index, trial in zip(made.index, records(made), strict=True):
        same = {name: trial[name] for name in ("provenance_hash", "condition_id", "framework", "compile", "workload")}
        same |= {"batch_size": trial["batch_size"], "chip": trial["chip"], "label": labels[trial["condition_id"]]}
        buffers, chip = journals.evidence.buffers.get(index), journals.evidence.chips.get(index)
        rows += [{**same, **row} for row in plan_rows(trial, buffers, chip)]
    return pd.DataFrame(
        {column.name: pd.Series([row.get(column.name) for row in rows], dtype=column.dtype) for column in COLUMNS}
    )


def plan_rows(trial: dict[str, Any], buffers: PlannedBuffers | None, chip: Chip | None) -> list[dict[str, Any]]:
    """The modelled columns of one plan, a row a mode; one row with a note where it cannot be modelled."""
    if chip is None:
        return [{"mode": "default", "note": TPU_NOTE}]
    if buffers is None:
        return [{"mode": "default", "note": NO_BUFFERS_NOTE}]
    if pd.isna(trial["framework_version"]):
        return [{"mode": "default", "note": NO_VERSION_NOTE}]
    return [_mode_row(mode, buffers, chip, str(trial["framework_version"])) for mode in modes(trial["framework"])]


def _mode_row(mode: Mode, buffers: PlannedBuffers, chip: Chip, version: str) -> dict[str, Any]:
    found = tenancy(plan_trace(buffers), mode, chip, version, code_bytes=buffers.code_bytes)
    return {
        "mode": mode.name,
        "modelled_capacity_bytes": chip.memory_bytes,
        "modelled_context_bytes": CONTEXT_BYTES,
        "modelled_fraction_ratio": DEFAULT_FRACTION,
        "modelled_requested_bytes": found.first.peak_requested_bytes,
        "modelled_live_bytes": found.first.peak_live_bytes,
        "modelled_pool_bytes": found.first.peak_pool_bytes,
        "modelled_process_bytes": found.process_bytes,
        "modelled_fragmentation_ratio": found.first.fragmentation_ratio,
        "modelled_growth_events": found.first.growth_events,
        "modelled_fits": found.first.fits,
        "modelled_tenants_count": found.tenants_count,
    }
