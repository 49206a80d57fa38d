"""Prints how the BFC replay stands against TensorFlow's real BFC allocator, over seeded random traces.

    python tests/benchmarks/allocator_against_tf.py [--traces 224] [--first-seed 0]

Goals: peak of bytes in use and the whole map of regions and chunks equal to the byte in ≥ 95 % of the traces, the
first refused request (or none) right in ≥ 99 %. About 40 s for 32 traces: each waits the 10 s that BFC waits before it
fails, most of them only for the request that prints the map, which is no sample of a verdict.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from pathlib import Path

from tests.analysis import real_bfc


def main() -> None:
    """Run the traces, print every miss and the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--traces", type=int, default=224)
    parser.add_argument("--first-seed", type=int, default=0)
    asked = parser.parse_args()
    seeds = list(range(asked.first_seed, asked.first_seed + asked.traces))
    with tempfile.TemporaryDirectory() as folder:
        real_bfc.run(seeds, Path(folder))
        found = {seed: real_bfc.differences(seed, Path(folder)) for seed in seeds}
        version = real_bfc.result(seeds[0], Path(folder))["version"]
    for seed, differences in found.items():
        for name, words in differences.items():
            print(f"seed {seed}: {name}: {words[:400]}")
    report(found, version)


def report(found: dict[int, dict[str, str]], version: str) -> None:
    """The figures, with what the traces were like."""
    cases = [real_bfc.case(seed) for seed in found]
    refused = sum(not real_bfc.replayed(one, [], False)[0].fits for one in cases)
    misses = Counter(name for differences in found.values() for name in differences)
    equal = sum(not differences.keys() & {"peak", "map"} for differences in found.values())
    print(f"TensorFlow {version}, {len(found)} traces, {refused} out of memory")
    print(f"peak and map equal to the byte: {equal / len(found):.2%} (goal ≥ 95 %)")
    print(f"verdict right: {1 - misses['verdict'] / len(found):.2%} (goal ≥ 99 %)")
    print(f"misses by kind: {dict(misses) or 'none'}")


if __name__ == "__main__":
    main()
