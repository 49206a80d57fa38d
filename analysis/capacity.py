"""The largest batch that fits, from the probes of a search: compiled for a chip, or run under a cap. Never joined.

A compiled row holds what the compiler planned, a measured row what the allocator counted; each leaves the other's
columns empty, and no figure shows both.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from analysis.factors import places
from analysis.frames import records
from analysis.labels import framework_label
from analysis.load import Journals
from runners.records import OutcomeKind

COLUMNS = (
    "provenance_hash", "evidence", "label", "framework", "compile", "workload", "device", "chip", "allocation",
    "largest_batch_size", "smallest_refused_batch_size", "probes_count", "limit_bytes",
    "usable_bytes", "planned_peak_bytes", "device_live_peak_bytes", "refused_bytes",
)  # fmt: skip

BATCH = "workload.batch_size"
LIMIT = "allocation.limit_bytes"
MEASURED = "measured"


def capacity_table(planned: pd.DataFrame, probes: pd.DataFrame, journals: Journals) -> pd.DataFrame:
    """One row for all that differs in the batch size only, where several were tried: the largest batch that fits.

    `planned` are the compiled trials, `probes` the measured ones of a search. `limit_bytes` is the cap as it was asked
    for in bytes; `refused_bytes` the allocation that failed at the smallest batch that was refused.
    """
    rows = [*_rows(planned, journals), *_rows(probes, journals)]
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    whole = [name for name in COLUMNS if name.endswith(("_size", "_count", "_bytes"))]
    return table.astype(dict.fromkeys(whole, "Int64"))


def _rows(trials: pd.DataFrame, journals: Journals) -> list[dict[str, Any]]:
    settings = {name: journals.conditions[name] for name in dict.fromkeys(trials["condition_id"])}
    found = places(settings, (BATCH,))
    tried: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in records(trials):
        tried.setdefault((row["provenance_hash"], found[row["condition_id"]].cell), []).append(row)
    several = {key: rows for key, rows in tried.items() if len({row["batch_size"] for row in rows}) > 1}
    label = {place.cell: place.cell_label for place in found.values()}
    return [
        _row(rows, label[cell], settings[rows[0]["condition_id"]].get(LIMIT)) for (_, cell), rows in several.items()
    ]


def _row(rows: list[dict[str, Any]], label: str, limit_bytes: Any) -> dict[str, Any]:
    fitting = [row for row in rows if _fits(row)]
    refusing = [row for row in rows if _fits(row) is False]
    largest = max(fitting, key=_batch, default=None)
    refused = min(refusing, key=_batch, default=None)
    sample = rows[0]
    return {
        **{name: sample[name] for name in COLUMNS[:9] if name != "label"},
        "label": label or framework_label(sample["framework"], sample["compile"]),
        "largest_batch_size": largest["batch_size"] if largest else 0,
        "smallest_refused_batch_size": refused["batch_size"] if refused else None,
        "probes_count": len(rows),
        "limit_bytes": limit_bytes,
        "usable_bytes": largest["usable_bytes"] if largest else None,
        "planned_peak_bytes": largest["planned_peak_bytes"] if largest else None,
        "device_live_peak_bytes": largest["device_live_peak_bytes"] if largest else None,
        "refused_bytes": refused["bytes_asked"] if refused and refused["evidence"] == MEASURED else None,
    }


def _batch(row: dict[str, Any]) -> int:
    return int(row["batch_size"])


def _fits(row: dict[str, Any]) -> bool | None:
    """Whether the batch fits; None where the trial ended for another reason than too little of that memory."""
    if row["outcome"] == OutcomeKind.OOM:
        # the host's memory is not what a cap or a chip has
        return None if row["evidence"] == MEASURED and row["reason"] == "host" else False
    if row["outcome"] != OutcomeKind.OK:
        return None
    if row["evidence"] == MEASURED:
        return True
    return None if pd.isna(row["fits"]) else bool(row["fits"])


def sentence(row: dict[str, Any]) -> str:
    """The answer of one row, with its evidence."""
    how = "measured: each batch ran a few steps" if row["evidence"] == MEASURED else "compiled, not run"
    largest, refused = row["largest_batch_size"], row["smallest_refused_batch_size"]
    where = row["label"] + bound(row)
    if pd.isna(refused):
        return f"{where}: every batch tried fits, up to {largest:,} ({how})"
    open_span = "" if refused - largest == 1 else f"; between {largest:,} and {refused:,} nothing was tried"
    return f"{where}: the largest batch that fits is {largest:,} ({how}{open_span})"


def bound(row: dict[str, Any]) -> str:
    """Mode and cap of a measured row, to stand behind its label; of a compiled one the label says all."""
    if row["evidence"] != MEASURED:
        return ""
    cap = "" if pd.isna(row["limit_bytes"]) else f", cap {row['limit_bytes'] / 2**20:,.6g} MiB"
    return f", allocation {row['allocation']}{cap}"
