"""Prints what the comparison's statistics do on simulated studies whose truth is known.

    python -m tests.benchmarks.statistics_simulation [--studies 20000]

False positives of A against A (goal: at most 6.5 % a test, 5 % a family after Holm), power at 2 % with 10 blocks at a
paired sd of 1.5 % (goal: 95 %), coverage of the interval (93–97 %), bias (at most 0.2 %), under drift and load.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from analysis import statistics

#: Disturbance of a study: (generator, blocks) → log factors of shape (blocks, 2), in the order in which the trials ran.
Disturbance = Callable[[np.random.Generator, int], np.ndarray]


@dataclass(frozen=True)
class Result:
    """Shares over the studies, and the bias of the ratio as a share."""

    different: float
    covered: float
    equivalent: float
    bias: float


def simulate(
    studies: int,
    blocks: int = 10,
    slow_down: float = 0.0,
    paired_sd: float = 0.015,
    disturbance: Disturbance | None = None,
    seed: int = 1,
) -> Result:
    """Studies of A against B, A slower by `slow_down`; launches vary log-normally, in random order within a block."""
    chance = np.random.default_rng(seed)
    truth = math.log1p(slow_down)
    effects = [_one_study(chance, blocks, truth, paired_sd, disturbance) for _ in range(studies)]
    means = np.array([effect.interval.mean for effect in effects])
    covered = [effect.interval.low <= truth <= effect.interval.high for effect in effects]
    return Result(
        different=float(np.mean([effect.p < statistics.ALPHA for effect in effects])),
        covered=float(np.mean(covered)),
        equivalent=float(np.mean([effect.p_equivalence < statistics.ALPHA for effect in effects])),
        bias=float(np.expm1(means.mean() - truth)),
    )


def _one_study(
    chance: np.random.Generator, blocks: int, truth: float, paired_sd: float, disturbance: Disturbance | None
) -> statistics.Effect:
    shared = chance.normal(0, 0.1, (blocks, 1))
    times = shared + chance.normal(0, paired_sd / math.sqrt(2), (blocks, 2))
    if disturbance is not None:
        places = disturbance(chance, blocks)
        first = chance.integers(0, 2, blocks)
        times += np.stack([places[np.arange(blocks), first], places[np.arange(blocks), 1 - first]], axis=1)
    times[:, 0] += truth
    return statistics.paired_effect(times[:, 0] - times[:, 1])


def drift(_: np.random.Generator, blocks: int) -> np.ndarray:
    """0.3 % slower with every launch."""
    return 0.003 * np.arange(2 * blocks).reshape(blocks, 2)


def load(chance: np.random.Generator, blocks: int) -> np.ndarray:
    """One launch in ten is 10 % slower because something else ran."""
    return math.log(1.1) * (chance.random((blocks, 2)) < 0.1)


def mean_covered(studies: int, blocks: int, launch_sd: float, seed: int = 3) -> float:
    """Share of conditions whose interval of the mean step time holds the true mean; launches vary log-normally."""
    chance = np.random.default_rng(seed)
    times = np.exp(chance.normal(0, launch_sd, (studies, blocks)))
    factor = statistics.factor_of_mean(times.mean(axis=1), times.std(axis=1, ddof=1), blocks)
    apart = np.log(times.mean(axis=1)) - launch_sd**2 / 2
    return float(np.mean(np.abs(apart) <= np.log(factor)))


def familywise(studies: int, pairs: int = 10, seed: int = 2) -> float:
    """Share of studies of `pairs` A/A comparisons in which Holm's adjustment lets at least one pass."""
    chance = np.random.default_rng(seed)
    wrong = 0
    for _ in range(studies):
        p = [_one_study(chance, 10, 0.0, 0.015, None).p for _ in range(pairs)]
        wrong += bool((statistics.holm(p) < statistics.ALPHA).any())
    return wrong / studies


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--studies", type=int, default=20_000)
    studies = options.parse_args().studies
    chance = math.sqrt(0.05 * 0.95 / studies)
    print(f"{studies:,} simulated studies of 10 blocks, paired sd 1.5 %; chance moves a share of 5 % by ± {chance:.2%}")
    disturbances: dict[str, Disturbance | None] = {"undisturbed": None, "drift": drift, "load": load}
    for name, disturbance in disturbances.items():
        same = simulate(studies, disturbance=disturbance)
        print(f"A/A, {name}: false positives {same.different:.1%}, coverage {same.covered:.1%}, bias {same.bias:+.3%}")
    print(f"A/A, 10 pairs, Holm: familywise {familywise(studies):.1%}")
    for slow_down in (0.005, 0.01, 0.02, 0.05, 0.10):
        found = simulate(studies, slow_down=slow_down)
        print(
            f"slow-down {slow_down:.1%}: found {found.different:.1%}, coverage {found.covered:.1%}, "
            f"bias {found.bias:+.3%}, called equivalent {found.equivalent:.1%}"
        )
    for blocks in (2, 3, 5, 30):
        same = simulate(studies, blocks=blocks)
        print(f"A/A, {blocks} blocks: false positives {same.different:.1%}, coverage {same.covered:.1%}")
    for launch_sd in (0.05, 0.3):
        shares = ", ".join(f"{mean_covered(studies, n, launch_sd):.1%} at {n}" for n in (2, 3, 5, 10))
        print(f"interval of a mean step time, launches vary by {launch_sd:.0%}: coverage {shares} launches")


if __name__ == "__main__":
    main()
