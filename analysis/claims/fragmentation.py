"""P5: whether a pool that grows on demand runs out of memory earlier than one that was reserved whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from analysis.allocator_model import BfcPool, Driver, Pool, UpperEndPool, churn_trace, replay
from analysis.claims.base import Claim, Finding, Kind, Verdict
from analysis.claims.evidence import Evidence
from runners.records import OutcomeKind
from runners.specs import WorkloadSpec

#: So many steps of the seeded order are replayed: about as many as a trial under protocol=smoke makes.
STEPS = 100
SHAPE = "workload.shape."
ORDER = "the order of requests: either pool serves loads that the other does not"


def judge(evidence: Evidence) -> Iterator[Finding]:
    """On a GPU both pools are measured. On a CPU only the growing one exists, and both are modelled besides."""
    yield from _measured(evidence)
    trials = evidence.select({"workload": "churn", "allocation": "growth", "device": "cpu", "framework": "tf"})
    trials = trials[trials["outcome"].isin([OutcomeKind.OK.value, OutcomeKind.OOM.value])]
    if len(trials):
        yield _modelled(evidence, trials)


def _measured(evidence: Evidence) -> Iterator[Finding]:
    served = {}
    for mode in ("growth", "preallocate"):
        trials = evidence.select({"workload": "churn", "device": "gpu", "allocation": mode})
        keys = [evidence.setting(f"{SHAPE}{name}", trials) for name in ("share_percent", "sequence", "capacity_mib")]
        served[mode] = trials["outcome"].eq(OutcomeKind.OK.value).groupby([trials["framework"], *keys]).all()
    common = served["growth"].index.intersection(served["preallocate"].index)
    if len(common):
        growing, reserved = (served[mode][common] for mode in ("growth", "preallocate"))
        text = f"served: the growing pool {growing.sum()}, the reserved one {reserved.sum()} of {len(common)} loads"
        yield Finding(Kind.MEASURED, _verdict(growing, reserved), "this GPU", text, ORDER)


def _modelled(evidence: Evidence, trials: pd.DataFrame) -> Finding:
    """Both pools replayed over what TensorFlow's growing pool was measured on, and how often the replay agrees."""
    workloads = {label: workload(evidence.journals.conditions[one]) for label, one in trials["condition_id"].items()}
    limits = {label: one.shape["capacity_mib"] * 2**20 for label, one in workloads.items()}
    growing, reserved = (
        pd.Series({label: _fits(one, limits[label], growth) for label, one in workloads.items()})
        for growth in (True, False)
    )
    measured = trials["outcome"].eq(OutcomeKind.OK.value)
    agrees, upper = int((measured == growing).sum()), _upper_end(workloads, limits)
    text = (
        f"of {len(trials)} loads a pool that grows serves {growing.sum()} and one region taken at the start "
        f"{reserved.sum()} (as JAX ≥ 0.12 fills it: {upper}); TensorFlow's growing pool, measured on this CPU, served "
        f"{measured.sum()}, and ended as the replay says in {agrees} (which leaves out the scalars that it takes "
        "besides)"
    )
    return Finding(Kind.MODELLED, _verdict(growing, reserved), "the replay of BFC", text, ORDER)


def workload(settings: dict[str, Any]) -> WorkloadSpec:
    """The workload of a condition, from its flat settings."""
    shape = {
        key.removeprefix(SHAPE): int(value)
        for key, value in settings.items()
        if key.startswith(SHAPE) and value is not None
    }
    return WorkloadSpec(
        settings["workload"],
        settings["workload.size"],
        settings["workload.batch_size"],
        settings["workload.dtype"],
        shape,
    )


def _fits(asked: WorkloadSpec, limit_bytes: int, growth: bool) -> bool:
    return _served(asked, BfcPool(Driver(2 * limit_bytes), limit_bytes, growth=growth))


def _upper_end(workloads: dict[Any, WorkloadSpec], limits: dict[Any, int]) -> int:
    pools = {label: UpperEndPool(Driver(2 * limit), limit) for label, limit in limits.items()}
    return sum(_served(one, pools[label]) for label, one in workloads.items())


def _served(asked: WorkloadSpec, pool: Pool) -> bool:
    return replay(churn_trace(asked, STEPS), pool).fits


def _verdict(growing: pd.Series, reserved: pd.Series) -> Verdict:
    """By the loads that one pool serves and the other does not."""
    fewer, more = bool((reserved & ~growing).any()), bool((growing & ~reserved).any())
    return Verdict.DEPENDS if fewer and more else Verdict.SUPPORTED if fewer else Verdict.REFUTED


MORE_FRAGMENTS = Claim(
    name="P5",
    statement="Without preallocation memory fragments more, so that programs near the capacity run out of it.",
    question="Of blocks of mixed sizes that come and go near a limit, does a pool that grows serve fewer loads than "
    "one region taken at the start?",
    metric="loads (share of the limit × seeded order of requests) that are served to the end",
    margin="none: loads are counted",
    test="supported: the reserved pool serves loads that the growing one does not, and not the other way round; "
    "refuted: it serves none more; depends: each serves loads that the other does not",
    needs="TensorFlow on a CPU (modelled), or a GPU",
    documented="JAX's guide to GPU memory: without preallocation memory may fragment, and a program that uses most of "
    "it may run out; regions of a BFC pool are never merged",
    judge=judge,
)
