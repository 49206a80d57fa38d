"""T1 and T6: JAX and TensorFlow on a TPU."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis import words
from analysis.claims.base import Claim, Finding, Kind, decided
from analysis.claims.evidence import Evidence
from runners.records import OutcomeKind

#: With a small step less than this of the memory in one free block would mean that something else has taken it.
FREE_SHARE = 0.5
#: How a compilation ends that was really tried.
TRIED = [OutcomeKind.OK.value, OutcomeKind.OOM.value, OutcomeKind.CRASH.value]


def _no_preallocation(evidence: Evidence) -> Iterator[Finding]:
    trials = evidence.ok({"device": "tpu", "framework": "jax", "allocation": "default"})
    shares = (trials["device_largest_free_block_bytes"] / trials["device_memory_bytes"]).dropna()
    if len(shares):
        text = f"at least {shares.min():.1%} of the memory was one free block"
        yield decided(Kind.MEASURED, bool(shares.min() >= FREE_SHARE), "this TPU", text)


def _more_integrated(evidence: Evidence) -> Iterator[Finding]:
    """Which of the frameworks' steps the TPU's compiler takes, over the cells that both were tried in."""
    trials = evidence.select({"device": "tpu"}, "compiled")
    tried = trials[trials["outcome"].isin(TRIED)]
    taken = {framework: _taken(rows) for framework, rows in tried.groupby("framework")}
    common = set(taken.get("jax", {})) & set(taken.get("tf", {}))
    if not common:
        return
    jax, tf = (sum(taken[framework][cell] for cell in common) for framework in ("jax", "tf"))
    chips = words.listed(sorted({chip for _, _, chip in common}))
    text = f"of {words.count(len(common), 'plan')} the compiler made {jax} from JAX and {tf} from TensorFlow"
    yield decided(Kind.COMPILED, tf > jax, f"the TPU compiler for {chips}", text)


def _taken(trials: pd.DataFrame) -> dict[tuple[str, int, str], bool]:
    """Workload, batch and chip → whether the compiler gave a plan (one that is refused for its size is one too)."""
    columns = trials[["workload", "batch_size", "chip", "outcome"]]
    return {
        (workload, batch_size, chip): outcome != OutcomeKind.CRASH
        for workload, batch_size, chip, outcome in columns.itertuples(index=False)
    }


NO_PREALLOCATION = Claim(
    name="T1",
    statement="JAX does not preallocate on a TPU.",
    question="How much of a TPU's memory is one free block at the end of a small step's trial?",
    metric="largest free block of the allocator ÷ its limit, the memory of the device",
    margin=f"{FREE_SHARE:.0%}",
    test="supported: at least the margin in every trial; else refuted",
    needs="a TPU",
    documented="jaxlib passes no allocation option to the TPU client: there is no preallocation to switch",
    judge=_no_preallocation,
)
MORE_INTEGRATED = Claim(
    name="T6",
    statement="TensorFlow is better integrated with TPUs than JAX.",
    question="Does the TPU's compiler take more of TensorFlow's steps than of JAX's?",
    metric="steps that compile for a TPU, of the same workloads and chips",
    margin="none: plans are counted",
    test="supported: it takes more of TensorFlow's; else refuted. How well something is documented is not tested",
    needs="plans of both frameworks for the same steps and chips (libtpu, which the extra cpu brings)",
    documented="tensorflow-tpu ends at 2.20, and Google's documentation of TPU7x says that it does not support "
    "TensorFlow",
    judge=_more_integrated,
)
