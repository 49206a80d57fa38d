"""A against A on real launches of this machine: how often does the analysis see a difference where there is none?

    python -m tests.benchmarks.real_aa [--blocks 100] [--folder outputs/aa] [workload.size=tiny …]

The study compares allocation=default with allocation=platform under JAX on the CPU. These are two names of one thing:
neither sets a variable or makes a call, and JAX's default on a CPU is to pass every request on. So every difference is
false. All goes the way of any other study: interleaved windows, pairs within blocks, t test over launches.

From the real log-ratios, studies of 10 blocks are drawn many times without replacement. In half of the blocks, chosen
by chance, A and B change their names, which is allowed because they are the same. Printed beside the share of false
positives: the same without that change (a constant bias of this machine would show there), and two wrong ways.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from scipy import stats

from analysis import statistics
from analysis.factors import places, primary_settings
from analysis.load import Journals, read_journals
from analysis.pairing import Pair, find_pairs
from analysis.pairs import log_ratios, value_of

STUDY = ("framework=jax", "allocation=default,platform", "protocol=smoke", "workload=matmul")
BLOCKS_A_STUDY = 10
DRAWS = 5000


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--blocks", type=int, default=100, help="launches are twice as many (default: 100)")
    options.add_argument("--folder", type=Path, help="use this study instead of running one")
    asked, overrides = options.parse_known_args()
    if asked.folder is not None:
        return report(asked.folder)
    with tempfile.TemporaryDirectory() as place:
        command = [sys.executable, "-m", "study", "-m", *STUDY, *overrides]
        command += [f"study.blocks={asked.blocks}", "study.name=aa"]
        subprocess.run(command, cwd=place, check=True)
        return report(Path(place) / "outputs" / "aa")


def report(folder: Path) -> int:
    """Print what the launches of this study say."""
    journals = read_journals([folder])
    (pair,) = find_pairs(
        journals.trials, places(journals.conditions, primary_settings(journals.sessions, journals.conditions))
    )
    ratios, method = real_ratios(pair, journals)
    whole = statistics.paired_effect(ratios)
    print(f"{2 * len(ratios)} launches in {len(ratios)} blocks, compared by {method}")
    print(f"paired sd {whole.interval.deviation:.2%}")
    print(f"all blocks together: ratio {np.exp(whole.interval.mean):.4f}, p {whole.p:.2g}")
    chance = np.random.default_rng(1)
    drawn = np.array([chance.choice(len(ratios), BLOCKS_A_STUDY, replace=False) for _ in range(DRAWS)])
    signs = chance.choice((-1.0, 1.0), drawn.shape)
    print(f"false positives in {DRAWS:,} studies of {BLOCKS_A_STUDY} blocks drawn from them (goal ≤ 6.5 %):")
    print(f"  paired t over launches, names changed by chance: {_share(ratios[drawn] * signs):.1%}")
    print(f"  paired t over launches, names as they are:       {_share(ratios[drawn]):.1%}")
    values = launch_values(pair, journals)
    print("beside it, from the same launches:")
    print(f"  Welch t over launch values, not paired:          {_unpaired(values, drawn, signs):.1%}")
    print(f"  t over all windows pooled (windows are no replicates): {_pooled(pair, journals, drawn, signs):.1%}")
    return 0


def real_ratios(pair: Pair, journals: Journals) -> tuple[np.ndarray, str]:
    """log(T_a/T_b) of every block, as the product computes it, and by which method."""
    trials = journals.trials
    sessions = dict(zip(trials.index, trials["session_id"], strict=True))
    return log_ratios(pair, value_of(trials, "step_seconds"), journals.evidence, sessions)


def launch_values(pair: Pair, journals: Journals) -> np.ndarray:
    """Log step times of the launches, shape (blocks, 2)."""
    seconds = value_of(journals.trials, "step_seconds")
    return np.log([[seconds(first), seconds(second)] for first, second in pair.common])


def _share(studies: np.ndarray) -> float:
    """Share of the rows, shape (studies, blocks), whose paired t test rejects."""
    return float(np.mean([statistics.paired_effect(row).p < statistics.ALPHA for row in studies]))


def _unpaired(values: np.ndarray, drawn: np.ndarray, signs: np.ndarray) -> float:
    sides = values[drawn]
    swapped = np.where(signs[..., None] > 0, sides, sides[..., ::-1])
    p = stats.ttest_ind(swapped[..., 0], swapped[..., 1], axis=1, equal_var=False).pvalue
    return float(np.mean(p < statistics.ALPHA))


def _pooled(pair: Pair, journals: Journals, drawn: np.ndarray, signs: np.ndarray) -> float:
    windows = [[np.log(journals.evidence.series[side[0]][1]) for side in block] for block in pair.common]
    rejected = []
    for blocks, turns in zip(drawn, signs, strict=True):
        sides = [windows[block][:: int(turn)] for block, turn in zip(blocks, turns, strict=True)]
        one, other = (np.concatenate([side[place] for side in sides]) for place in (0, 1))
        rejected.append(stats.ttest_ind(one, other).pvalue < statistics.ALPHA)
    return float(np.mean(rejected))


if __name__ == "__main__":
    sys.exit(main())
