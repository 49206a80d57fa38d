"""Which settings a short name of a condition needs. The study's progress and the analysis' labels go by it."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from runners.specs import Scalar


def telling(differing: Collection[str], conditions: Collection[Mapping[str, Scalar]]) -> list[str]:
    """Those of the `differing` settings that say something: a refinement that follows from its factor's level does not.

    Where two workloads are compared, each at one batch size, the workload names both.
    """
    return [
        key for key in differing if not any(_follows(key, one, conditions) for one in _refined(key) if one in differing)
    ]


def _refined(key: str) -> tuple[str, ...]:
    """The factors whose level may settle a refinement: its own, and the device for how it is measured there."""
    factor, _, rest = key.partition(".")
    return () if not rest else (factor, "device") if factor == "protocol" else (factor,)


def _follows(key: str, factor: str, conditions: Collection[Mapping[str, Scalar]]) -> bool:
    """Whether every level of the factor comes with one value of the setting."""
    values: dict[str, set[str]] = {}
    for settings in conditions:
        values.setdefault(repr(settings.get(factor)), set()).add(repr(settings.get(key)))
    return all(len(one) == 1 for one in values.values())
