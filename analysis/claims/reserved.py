"""P1 and P2: what JAX reserves on a GPU, by default and without preallocation."""

from __future__ import annotations

from collections.abc import Iterator

from analysis import words
from analysis.claims import modelled
from analysis.claims.base import Claim, Finding, Kind, Verdict, decided
from analysis.claims.evidence import Evidence
from runners.records import OutcomeKind

SHARE, SHARE_MARGIN = 0.75, 0.02


def _preallocates(evidence: Evidence) -> Iterator[Finding]:
    """The pool of JAX's default mode against the device's memory."""
    trials = evidence.ok({"device": "gpu", "framework": "jax", "allocation": "default", "colocation": "solo"})
    shares = (trials["device_pool_peak_bytes"] / trials["device_memory_bytes"]).dropna()
    if len(shares):
        text = f"the pool held {shares.median():.1%} of the GPU's memory in {words.count(len(shares), 'launch')}"
        holds = bool((shares - SHARE).abs().max() <= SHARE_MARGIN)
        yield decided(Kind.MEASURED, holds, "this GPU", text)


def _less_reserved(evidence: Evidence) -> Iterator[Finding]:
    """The process's bytes by the driver's count, and out-of-memory ends at the start, with growth and without."""
    growth, preallocate = (modelled.processes("jax", mode).process_bytes for mode in ("growth", "preallocate"))
    held_text = f"a process holds {words.mebibytes(growth)} with growth, {words.mebibytes(preallocate)} preallocated"
    yield modelled.finding(growth < preallocate, held_text)
    solo = {"device": "gpu", "framework": "jax", "colocation": "solo"}
    growing = evidence.select({**solo, "allocation": "growth"})
    reserving = evidence.select({**solo, "allocation": ("default", "preallocate")})
    held = [one["process_peak_bytes"].dropna().astype(float) for one in (growing, reserving)]
    if not all(map(len, held)):
        return
    ooms = [int((one["outcome"] == OutcomeKind.OOM).sum()) for one in (growing, reserving)]
    less, no_more_ooms = held[0].max() < held[1].min(), ooms[0] <= ooms[1]
    text = (
        f"the driver counts {words.mebibytes(held[0].median())} with growth and {words.mebibytes(held[1].median())} "
        f"with a reserved pool; out of memory in {ooms[0]} and {ooms[1]} launches"
    )
    verdict = Verdict.SUPPORTED if less and no_more_ooms else Verdict.DEPENDS if less else Verdict.REFUTED
    yield Finding(Kind.MEASURED, verdict, "this GPU", text, "the fraction: growth ran out of memory more often")


PREALLOCATES = Claim(
    name="P1",
    statement="JAX preallocates 75 % of the GPU's memory.",
    question="Which share of the GPU's memory does JAX's pool hold when nothing is set?",
    metric="peak of the allocator's pool ÷ memory of the device, allocation=default",
    margin=f"{SHARE:.0%} ± {SHARE_MARGIN:.0%}",
    test="supported: within the margin in every launch; else refuted",
    needs="a GPU (the preset preallocation)",
    documented="jaxlib/xla_client.py: memory_fraction 0.75 of total memory, preallocate true; it is taken at the first "
    "use of the backend, not at the import, and a GPU that is partly occupied shrinks it in steps of a tenth",
    judge=_preallocates,
)
LESS_RESERVED = Claim(
    name="P2",
    statement="Switching preallocation off lowers the reserved memory and avoids running out of it at the start.",
    question="Does a process hold less of the GPU with growth, and does it start where a reserved pool does not?",
    metric="peak of the process's bytes by the driver's count, and out-of-memory ends, growth against a reserved pool",
    margin="none: every launch with growth must hold less than every one without",
    test="supported: less held and no more often out of memory; depends: less held, but more often out of memory; "
    "modelled: less held; else refuted",
    needs="a GPU (the preset preallocation)",
    documented="JAX's guide to GPU memory confirms the first; for the start it names a lower fraction",
    judge=_less_reserved,
)
