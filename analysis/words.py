"""Numbers and comparisons in words. Seconds and bytes become ms and MiB here and in the figures, nowhere else."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

MIB = 2**20


def ratio(value: float, *others: float) -> str:
    """Two decimals; three where it or one of `others` (its interval) is within 5 % of 1; three digits below 0.1."""
    if not 0.1 <= value < 100:
        return f"{value:.3g}"
    return f"{value:.3f}" if any(0.95 <= one <= 1.05 for one in (value, *others)) else f"{value:.2f}"


def milliseconds(seconds: float | None) -> str:
    """Seconds as ms with three significant digits; empty where not measured."""
    return "" if is_missing(seconds) else f"{significant(float(seconds) * 1e3)} ms"  # type: ignore[arg-type]


def seconds(value: float | None) -> str:
    """Seconds with three significant digits; empty where not measured."""
    return "" if is_missing(value) else f"{significant(float(value))} s"  # type: ignore[arg-type]


def mebibytes(size: float | None) -> str:
    """Bytes as MiB; empty where not measured."""
    return "" if is_missing(size) else f"{significant(float(size) / MIB)} MiB"  # type: ignore[arg-type]


def significant(value: float, digits: int = 3) -> str:
    """`value` with at least `digits` significant digits, thousands separated, never in powers of ten up to 10¹⁵."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = max(digits - 1 - math.floor(math.log10(abs(value))), 0)
    return f"{value:,.{decimals}f}" if abs(value) < 1e15 and decimals < 9 else f"{value:.{digits}g}"


def is_missing(value: Any) -> bool:
    """None, NaN or pandas' NA."""
    return value is None or type(value).__name__ == "NAType" or value != value


def count(number: int, noun: str) -> str:
    """`1 block`, `5 blocks`, `5 launches`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def listed(values: Iterable[Any]) -> str:
    """`1, 2 and 3`, each once, in order of appearance; empty for none."""
    texts = list(dict.fromkeys("unset" if value is None else str(value) for value in values))
    return " and ".join(filter(None, [", ".join(texts[:-1]), *texts[-1:]]))


def duration(seconds: float) -> str:
    """`45 s`, `3.2 min` or `5.1 h`."""
    for unit, length in (("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{significant(seconds / length)} {unit}"
    return f"{significant(seconds)} s"


def pair_sentence(row: dict[str, Any], several_provenances: bool = False) -> str:
    """A row of the pairs table as a sentence, with n and its match beside the number."""
    return f"{_where(row, several_provenances)}{_comparison(row)}{_mismatch(row)}"


def _where(row: dict[str, Any], several_provenances: bool = False) -> str:
    where = [f"machine {row['provenance_hash'][:8]}"] if several_provenances else []
    where += [row["cell"]] if row["cell"] else []
    return f"{', '.join(where)}: " if where else ""


def _comparison(row: dict[str, Any]) -> str:
    a, b, n = row["level_a"], row["level_b"], int(row["blocks_count"])
    if n == 0:
        return f"{a} and {b} have no common block ({row['note']})"
    ends = [row["time_ratio_low"], row["time_ratio_high"]] if n > 1 else []
    times = f"{a} takes {ratio(row['time_ratio'], *ends)} × the time of {b}"
    if n == 1:
        return f"{times} in the one common block (n = 1: no interval)"
    low, high = (ratio(end, row["time_ratio"], *ends) for end in ends)
    return f"{times} (95 % interval {low}–{high}, {n} blocks): {row['verdict']}"


def _mismatch(row: dict[str, Any]) -> str:
    if is_missing(row.get("match")) or row["match"]:
        return ""
    return f" — NOT MATCHED, so this compares different work: {row['match_reason']}"


def memory_sentence(row: dict[str, Any]) -> str:
    """The pair's difference of host memory above baseline; empty where not measured on both sides."""
    n = int(row["host_peak_blocks_count"])
    if n == 0:
        return ""
    apart = row["host_peak_difference_median_bytes"]
    amount = f"{significant(abs(apart) / MIB)} MiB {'more' if apart > 0 else 'less'} host memory above baseline than"
    amount = amount if apart else "as much host memory above baseline as"
    interval = " (n = 1: no interval)"
    if n > 1:
        low, high = (significant(row[f"host_peak_difference_{end}_bytes"] / MIB) for end in ("low", "high"))
        interval = f" (median of {n} blocks; 95 % interval of the mean difference {low} to {high} MiB)"
    return f"{_where(row)}{row['level_a']} uses {amount} {row['level_b']}{interval}"
