"""The largest batch under a real cap: TensorFlow's own pool on the CPU, real ends of memory, fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from runners.records import OutcomeKind, Phase, TrialRecord
from study.journal import read_past

#: x and y are 256 KiB an example: some 60 examples fill the cap of 64 MiB with state, batch and temporaries.
#: Operation by operation the same buffers are asked for in the same order every time: the limit is sharp.
CONDITION = [
    "framework=tf_graph", "workload=elementwise", "workload.size=tiny", "workload.shape.width=65536",
    "allocation=growth", "allocation.limit_bytes=67108864", "protocol=smoke", "study.report=false",
]  # fmt: skip


def study(folder: Path, name: str, *arguments: str) -> tuple[list[TrialRecord], str]:
    """The records of a study, and what it printed."""
    command = [sys.executable, "-P", "-m", "study", "-m", *CONDITION, *arguments, f"study.name={name}"]
    environment = {**os.environ, "COLUMNS": "200"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=500, check=False
    )
    records = list(read_past(folder / "outputs" / name).records.values())
    assert records and done.returncode == 0, done.stdout + done.stderr
    return records, done.stdout


def test_the_largest_batch_under_a_cap_is_exact(tmp_path: Path) -> None:
    records, printed = study(tmp_path, "search", "workload.batch_size=57", "study.search=batch_size")
    probes = [one for one in records if one.spec.search == "batch_size"]
    fits = {one.spec.workload.batch_size: one.outcome.kind is OutcomeKind.OK for one in probes}
    largest = max(batch for batch, fit in fits.items() if fit)
    assert fits[largest + 1] is False
    assert f"the largest batch that fits is {largest} ({largest + 1} does not)" in printed
    assert all(one.outcome.kind in (OutcomeKind.OK, OutcomeKind.OOM) for one in probes)
    assert all((one.start, one.report.timings.window_seconds) == ("zygote", []) for one in probes)
    # ordinary trials, warmed up and timed, end as the search says: the one fits, one example more does not
    batches = f"workload.batch_size={largest},{largest + 1}"
    ordinary, _ = study(tmp_path, "check", batches, "protocol.interleave=false", "study.blocks=1")
    ends = {one.spec.workload.batch_size: one for one in ordinary}
    assert ends[largest].outcome.kind is OutcomeKind.OK and len(ends[largest].report.timings.window_seconds) == 3
    refused = ends[largest + 1].outcome
    assert (refused.kind, refused.reason, refused.phase) == (OutcomeKind.OOM, "device", Phase.FIRST_STEP)
    # one array more: a float32 for each of 65,536 × batch elements
    assert refused.bytes_asked == (largest + 1) * 65_536 * 4


def test_a_search_that_nothing_bounds_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "study", "framework=jax", "study.search=batch_size"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "framework=jax with allocation=default on device=cpu has no cap" in done.stderr
    assert not (tmp_path / "outputs").exists()
