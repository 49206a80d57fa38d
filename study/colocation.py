"""colocation=jax+tf: which trials share a device at the same time, and the conditions that this makes.

A co-location is named by the framework levels of its tenants, joined by +, a repeated one as N*level. Each tenant is a
condition of its own (colocation, colocation.tenant), so that it runs once a block, is compared and is counted like any
other; a trial that has the device to itself is `solo`.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from runners.specs import Scalar
from study.errors import RequestError

SOLO = "solo"
#: More processes than this on one device are a slip of the pen.
MOST_TENANTS = 8

#: The settings that tell tenants from each other and from a solo trial.
COLOCATION, TENANT, STAGGER = "colocation", "colocation.tenant", "colocation.stagger_seconds"
SETTINGS = (COLOCATION, TENANT, STAGGER)
#: What one tenant of a co-location may have and another not.
OF_ONE_TENANT = ("framework", "compile", "framework.python", TENANT)

_TERM = re.compile(r"(?:(?P<count>\d+)\*)?(?P<level>\w+)")

#: Waiting for an opening is bound by no deadline.
MOST_STAGGER_SECONDS = 3600.0


def tenants(name: str, levels: Sequence[str]) -> list[str]:
    """The framework levels of a co-location's tenants, in order; none for `solo`.

    Raises:
        RequestError: the name is not of the form, names no framework level, or has too few or too many tenants.
    """
    if name == SOLO:
        return []
    found: list[str] = []
    for term in name.split("+"):
        parsed = _TERM.fullmatch(term.strip())
        if parsed is None or parsed["level"] not in levels:
            raise _refusal(name, f"{term.strip() or 'nothing'} between the + is no framework", levels)
        count = int(parsed["count"] or 1)
        if not 1 <= count <= MOST_TENANTS:
            raise _refusal(name, f"{count} times {parsed['level']}", levels)
        found += [parsed["level"]] * count
    if not 2 <= len(found) <= MOST_TENANTS:
        raise _refusal(name, f"{len(found)} tenants", levels)
    return found


def _refusal(name: str, wrong: str, levels: Sequence[str]) -> RequestError:
    return RequestError(
        f"colocation={name} is not possible ({wrong}); it takes solo, or 2 to {MOST_TENANTS} tenants joined by +, such "
        f"as jax+tf or 4*jax, each one of {', '.join(levels)}"
    )


def canonical(tenants: Sequence[str]) -> str:
    """One name for one order of tenants: jax+jax and 2*jax are the same, and so are 3*jax and jax+2*jax."""
    runs = [(level, len(list(run))) for level, run in itertools.groupby(tenants)]
    return "+".join(f"{count}*{level}" if count > 2 else "+".join([level] * count) for level, count in runs)


def stagger(seconds: float) -> float:
    """The stagger, checked. Raises `RequestError` where it is no number of seconds from 0 to an hour."""
    if not 0 <= seconds <= MOST_STAGGER_SECONDS:
        wanted = f"0 to {MOST_STAGGER_SECONDS:g} seconds"
        raise RequestError(f"colocation_stagger_seconds={seconds} is not possible; it takes {wanted}")
    return seconds


def without(settings: dict[str, Scalar], *keys: str) -> dict[str, Scalar]:
    """The settings but for `keys`."""
    return {key: value for key, value in settings.items() if key not in keys}
