"""The claims: what is often said of JAX's and TensorFlow's memory, each with a rule and a verdict from the evidence.

One file holds the claims of one theme; a new claim is a `Claim` there and an entry in `CLAIMS`.
"""

from __future__ import annotations

from analysis.claims import fragmentation, on_demand, placement, reserved, shapes, sharing, tpu
from analysis.claims.base import Answer, answer
from analysis.claims.evidence import Evidence

CLAIMS = (
    reserved.PREALLOCATES,
    reserved.LESS_RESERVED,
    sharing.LETS_SHARE,
    sharing.RACES,
    fragmentation.MORE_FRAGMENTS,
    on_demand.ON_DEMAND_COST,
    tpu.NO_PREALLOCATION,
    placement.PLACEMENT,
    shapes.STATIC_SHAPES,
    sharing.CONFLICTS,
    sharing.GROWTH_AVOIDS,
    tpu.MORE_INTEGRATED,
)


def answers(evidence: Evidence) -> list[Answer]:
    """Every claim put to the evidence, in order."""
    return [answer(claim, evidence) for claim in CLAIMS]
