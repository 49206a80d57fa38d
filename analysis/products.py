"""One rule for the FLOPs of matrix products and convolutions: a framework's count against the workload's own.

Where the workload counts nothing, as a user's own file may, the two frameworks' counts are held against each other.
"""

from __future__ import annotations

import math

#: How far a framework's count may be from the workload's own, as a share of that.
SHARE = 0.01


def apart(own: int | None, found: int | None) -> float:
    """The relative difference of a framework's count from the workload's own.

    NaN where there is nothing to judge: the workload counts nothing or has no products (it is bound by memory), or the
    framework's count is not known.
    """
    return abs(found - own) / own if own and found is not None else math.nan


def failure(own: int | None, found: int | None, holder: str) -> str:
    """The failed test in words, or '' where it held or there was nothing to judge. `holder` holds the products."""
    if not apart(own, found) > SHARE:
        return ""
    return f"FLOPs of products differ from the workload's {own:,} by more than 1 %: {holder} {found:,}"


def between(a: int | None, b: int | None) -> float:
    """The relative difference of two frameworks' counts, from the larger; NaN where one is not known."""
    return abs(a - b) / max(a, b, 1) if a is not None and b is not None else math.nan


def mutual_failure(a: int | None, b: int | None, names: tuple[str, str]) -> str:
    """The failed test of two frameworks' counts in words, or '' where it held or there was nothing to judge."""
    if not between(a, b) > SHARE:
        return ""
    return f"FLOPs of products differ by more than 1 %: {names[0]} {a:,}, {names[1]} {b:,}"


def any_failure(
    own: tuple[int | None, int | None], found: tuple[int | None, int | None], names: tuple[str, str], holder: str
) -> str:
    """The first failed test of two sides in words: each against the workload's own count or, without one, the other's.

    `holder` follows a side's name: what of it holds the products.
    """
    if own == (None, None):
        return mutual_failure(*found, names)
    sides = zip(own, found, names, strict=True)
    failures = (failure(counted, held, f"{name}{holder}") for counted, held, name in sides)
    return next(filter(None, failures), "")
