"""One rule for the FLOPs of matrix products and convolutions: a framework's count against the workload's own."""

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
