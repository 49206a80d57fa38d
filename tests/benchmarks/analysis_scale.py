"""Prints time and peak memory of the analysis on N invented records of 30 windows each.

    python -m tests.benchmarks.analysis_scale 100000 [--conditions 300]
    python -m tests.benchmarks.analysis_scale 1000000 --summarise

Goals: 100,000 records in 30 s and 1.5 GiB, everything written; 1,000,000 loaded and summarised in 150 s.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runners.lines import encode_line
from tests.analysis import records_factory as factory

SUMMARISE = """
import sys
from pathlib import Path
from analysis.load import read_journals
from analysis.tables import build_tables
from analysis import processes
processes.allow()
print(len(build_tables(read_journals([Path(sys.argv[1])]), 0.02).conditions), "conditions")
"""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("records", type=int)
    options.add_argument("--conditions", type=int, default=300, help="half jax, half tf")
    options.add_argument("--windows", type=int, default=30)
    options.add_argument(
        "--summarise", action="store_true", help="load and make the tables only; write and draw nothing"
    )
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "study"
        size = generate(folder, asked.records, asked.conditions, asked.windows)
        began = time.monotonic()
        whole = ["-m", "analysis", str(folder), "--quiet"]
        ended = subprocess.run(
            [sys.executable, *(["-c", SUMMARISE, str(folder)] if asked.summarise else whole)], check=False
        )
        seconds = time.monotonic() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{asked.records:,} records, {asked.conditions} conditions, {size / 2**20:,.0f} MiB of journals:")
    print(
        f"{seconds:.1f} s (CPU {used.ru_utime + used.ru_stime:.1f} s), peak {used.ru_maxrss / 2**20:.2f} GiB, "
        f"exit status {ended.returncode}"
    )
    return ended.returncode


def generate(folder: Path, records: int, conditions: int, windows: int) -> int:
    """Write the journal; returns its size in bytes. Each condition has its own level, each trial its own windows."""
    chance = random.Random(1)
    settings = [
        factory.condition(framework, workload__batch_size=8 * (1 + number))
        for number in range(conditions // 2)
        for framework in ("jax", "tf")
    ]
    blocks = -(-records // len(settings))
    (folder / "journal").mkdir(parents=True)
    path = folder / "journal" / "a.jsonl"
    with path.open("w") as stream:
        stream.write(encode_line(factory.session(settings, blocks)))
        for index in range(records):
            block, number = divmod(index, len(settings))
            launch = 0.2 * chance.lognormvariate(0, 0.02)
            times = [launch * chance.lognormvariate(0, 0.005) for _ in range(windows)]
            starts = [index * 10 + 0.5 * turn + 0.25 * (number % 2) for turn in range(windows)]
            record = factory.trial(settings[number], block, order=number, windows=times, starts=starts, interleave=True)
            stream.write(encode_line(record))
    return path.stat().st_size


if __name__ == "__main__":
    sys.exit(main())
