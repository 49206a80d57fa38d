"""The claims: what is often said of JAX's and TensorFlow's memory, each with a rule and a verdict from the evidence.

One file holds the claims of one theme; a new claim is a `Claim` there and an entry in `CLAIMS`.
"""

from __future__ import annotations

from analysis.claims.base import Answer, answer
from analysis.claims.evidence import Evidence
from analysis.claims.fragmentation import MORE_FRAGMENTS
from analysis.claims.on_demand import ON_DEMAND_COST
from analysis.claims.placement import PLACEMENT
from analysis.claims.reserved import LESS_RESERVED, PREALLOCATES
from analysis.claims.shapes import STATIC_SHAPES
from analysis.claims.sharing import CONFLICTS, GROWTH_AVOIDS, LETS_SHARE, RACES
from analysis.claims.tpu import MORE_INTEGRATED, NO_PREALLOCATION

CLAIMS = (
    PREALLOCATES,
    LESS_RESERVED,
    LETS_SHARE,
    RACES,
    MORE_FRAGMENTS,
    ON_DEMAND_COST,
    NO_PREALLOCATION,
    PLACEMENT,
    STATIC_SHAPES,
    CONFLICTS,
    GROWTH_AVOIDS,
    MORE_INTEGRATED,
)


def answers(evidence: Evidence) -> list[Answer]:
    """Every claim put to the evidence, in order."""
    return [answer(claim, evidence) for claim in CLAIMS]
