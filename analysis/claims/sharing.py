"""P3, P4, T4, T5: what becomes of processes that share one accelerator, by allocation mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from analysis import words
from analysis.claims import modelled
from analysis.claims.base import Claim, Finding, Kind, Verdict, decided
from analysis.claims.evidence import Evidence
from runners.records import OutcomeKind

#: Modes that reserve their pool at the first allocation, and the one that does not.
RESERVING, GROWING = ("default", "preallocate"), ("growth",)


@dataclass(frozen=True)
class Shared:
    """How co-locations of some modes ended on a device: how many of `groups` had every tenant ok."""

    groups: int
    whole: int

    def __str__(self) -> str:
        return f"every tenant ok in {self.whole} of {words.count(self.groups, 'co-location')}"


def shared(evidence: Evidence, modes: tuple[str, ...], tenants: tuple[str, ...]) -> Shared | None:
    """The co-locations (a block of one each) on a GPU under these modes; None where none was launched."""
    trials = evidence.select({"device": "gpu", "allocation": modes, "colocation": tenants})
    launched = trials[~trials["outcome"].isin([OutcomeKind.UNAVAILABLE.value, OutcomeKind.NOT_APPLICABLE.value])]
    if not len(launched):
        return None
    keys = [launched["_folder"], launched["block"], launched["allocation"], evidence.setting("colocation", launched)]
    ended = launched["outcome"].eq(OutcomeKind.OK.value).groupby(keys).all()
    return Shared(len(ended), int(ended.sum()))


def _lets_share(evidence: Evidence) -> Iterator[Finding]:
    tenants = ("jax+jax", "jax+tf")
    yield modelled.shares("jax", "preallocate", "growth")
    reserving, growing = shared(evidence, RESERVING, tenants), shared(evidence, GROWING, tenants)
    if reserving is None or growing is None:
        return
    helps = growing.whole == growing.groups and reserving.whole < reserving.groups
    yield _found(helps, f"with a reserved pool {reserving}; with growth {growing}")


def _races(evidence: Evidence) -> Iterator[Finding]:
    found = shared(evidence, RESERVING, ("jax+jax",))
    if found is not None:
        yield _found(0 < found.whole < found.groups, f"two JAX processes with a reserved pool: {found}")


def _conflicts(evidence: Evidence) -> Iterator[Finding]:
    count = modelled.processes("tf", "default").tenants_count
    yield modelled.finding(count < 2, f"{words.count(count, 'such process')} fits by default")
    found = shared(evidence, ("default",), ("tf+tf", "jax+tf"))
    if found is not None:
        yield _found(found.whole < found.groups, f"TensorFlow by default beside another process: {found}")


def _growth_avoids(evidence: Evidence) -> Iterator[Finding]:
    yield modelled.shares("tf", "default", "growth")
    default, growth = (shared(evidence, modes, ("tf+tf",)) for modes in (("default",), GROWING))
    if default is None or growth is None:
        return
    text = f"two TensorFlow processes by default: {default}; with growth: {growth}"
    if default.whole == default.groups and growth.whole == growth.groups:
        yield Finding(
            Kind.MEASURED, Verdict.DEPENDS, "this GPU", text, "the steps' memory: here there was no OOM to avoid"
        )
    else:
        yield _found(growth.whole == growth.groups, text)


def _found(holds: bool, text: str) -> Finding:
    return decided(Kind.MEASURED, holds, "this GPU", text)


_OUTCOMES = "outcome of every tenant of a co-location, by allocation mode"
_NEEDS = "a GPU (the preset preallocation)"
_make: Callable[..., Claim] = partial(Claim, metric=_OUTCOMES, margin="none: outcomes are counted", needs=_NEEDS)

LETS_SHARE = _make(
    name="P3",
    statement="Without preallocation JAX lets other processes and frameworks share the GPU.",
    question="Do a JAX process and another one both finish on one GPU, with growth and with a reserved pool?",
    test="supported: with growth every tenant ends ok in every block, with a reserved pool not; modelled: more "
    "processes fit with growth, and at least two; else refuted",
    documented="JAX's guide to GPU memory names both levers, no preallocation and a lower fraction",
    judge=_lets_share,
)
RACES = _make(
    name="P4",
    statement="Several JAX processes race for the memory when they preallocate.",
    question="Do two JAX processes that preallocate end differently from launch to launch?",
    test="supported: every tenant ends ok in some blocks and not in others; else refuted",
    documented="jax#4310 is of a time when the fraction was of FREE memory; since jaxlib 0.4.1 it is of total memory, "
    "so that two default processes ask for 150 % of it, whoever comes first",
    judge=_races,
)
CONFLICTS = _make(
    name="T4",
    statement="TensorFlow preallocates by default and so conflicts with other processes and frameworks.",
    question="Do TensorFlow with default settings and another process both finish on one GPU?",
    test="supported: in at least one block a tenant does not end ok; modelled: no second process fits; else refuted",
    documented="TensorFlow's guide to GPUs: by default nearly all memory of all visible GPUs is mapped",
    judge=_conflicts,
)
GROWTH_AVOIDS = _make(
    name="T5",
    statement="TensorFlow's memory growth can be configured and avoids running out of memory.",
    question="Do two TensorFlow processes finish on one GPU with growth where by default they do not?",
    test="supported: with growth every tenant ends ok, by default not; depends: both do; modelled: more processes fit "
    "with growth, and at least two; else refuted",
    documented="tf.config.experimental.set_memory_growth, TF_FORCE_GPU_ALLOW_GROWTH; both only before the GPU is "
    "initialised",
    judge=_growth_avoids,
)
