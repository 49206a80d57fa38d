"""Traces on TensorFlow's real BFC allocator (its CPU device) beside their replay, and where the two differ.

    python -m tests.analysis.real_bfc FOLDER SEED ...

runs the traces of these seeds and writes FOLDER/SEED.json and FOLDER/SEED.log. TensorFlow is imported once, without a
context, and every trace is a fork with a log and a limit of its own, 32 at a time: BFC waits 10 s for other threads
before it refuses a request. A trace ends with its first refused request, which prints the map; one that fits is
followed by a request larger than the limit, for the map alone.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from analysis.allocator_model import Allocate, BfcPool, Driver, Event, Free, Replay, replay
from tests.analysis import bfc_log

ROOT = Path(__file__).parents[2]
MIB = 2**20
TOGETHER = 32
#: The shape that every tf.raw_ops.Empty is given is a tensor of one int32, in the same pool while the op runs.
SHAPE_BYTES = 4
#: Keys of shapes, apart from those of buffers.
SHAPE_KEY = -1

ENVIRONMENT = {
    "TF_CPU_ALLOCATOR_USE_BFC": "1",
    "TF_CPP_MIN_LOG_LEVEL": "0",
    "TF_CPP_VMODULE": "bfc_allocator=1",
    "CUDA_VISIBLE_DEVICES": "",
}


@dataclass(frozen=True)
class Case:
    """A limit and a trace of buffers."""

    limit_mib: int
    trace: tuple[Event, ...]


def case(seed: int) -> Case:
    """Up to 160 random requests near a random share of a limit of 8 to 384 MiB, freed in random order."""
    chance = random.Random(seed)
    limit_mib = chance.choice((8, 24, 64, 100, 256, 384))
    most = int(limit_mib * MIB * chance.uniform(0.3, 1.05))
    sizes = _sizes(chance, limit_mib)
    events: list[Event] = []
    held: dict[int, int] = {}
    for key in range(chance.randint(20, 160)):
        size = chance.choice(sizes)
        while held and (sum(held.values()) + size > most or chance.random() < 0.25):
            freed = chance.choice(list(held))
            events.append(Free(freed))
            del held[freed]
        events.append(Allocate(key, size))
        held[key] = size
    return Case(limit_mib, tuple(events))


def _sizes(chance: random.Random, limit_mib: int) -> list[int]:
    """Sizes evenly spread in the logarithm, from bytes to a third of the limit; few of them, so that chunks tie."""
    top = limit_mib * MIB / 3
    least = chance.choice((1, 1000, 64 * 1024))
    return [int(least * (top / least) ** chance.random()) for _ in range(chance.randint(3, 24))]


def as_tensorflow_asks(trace: tuple[Event, ...]) -> list[Event]:
    """The trace with the shape's tensor around every request."""
    asked: list[Event] = []
    for event in trace:
        shape = [Allocate(SHAPE_KEY, SHAPE_BYTES)] if isinstance(event, Allocate) else []
        asked += [*shape, event, *(Free(one.key) for one in shape)]
    return asked


def replayed(one: Case, bases: list[int], finished: bool) -> tuple[Replay, BfcPool]:
    """The replay, regions at the real addresses. `finished`: the real trace fitted, and the map's request follows."""
    pool = BfcPool(Driver(2**62, 1, bases), one.limit_mib * MIB, growth=True)
    found = replay(as_tensorflow_asks(one.trace), pool)
    if finished and found.fits:
        pool.allocate(SHAPE_BYTES)  # of the last request, for the map
    return found, pool


def result(seed: int, folder: Path) -> dict[str, Any]:
    """refused_key, peak_bytes and TensorFlow's version of one real trace."""
    return dict(json.loads((folder / f"{seed}.json").read_text()))


def differences(seed: int, folder: Path) -> dict[str, str]:
    """Where TensorFlow and the replay differ: verdict, peak, map or count → both sides in words; empty if nowhere."""
    one, real = case(seed), result(seed, folder)
    log = bfc_log.read((folder / f"{seed}.log").read_text())
    found, pool = replayed(one, log.bases, real["refused_key"] is None)
    pairs = {
        "verdict": (real["refused_key"], _refused_key(one, found)),
        "peak": (real["peak_bytes"], found.peak_live_bytes),
        "map": (log.regions, mapped(pool)),
        "count": (log.allocations_count, pool.allocations_count),
    }
    return {name: f"TensorFlow {a}, replay {b}" for name, (a, b) in pairs.items() if a != b}


def _refused_key(one: Case, found: Replay) -> int | None:
    """The buffer that could not be had, whether it was itself refused or its shape was."""
    if found.refused_event is None:
        return None
    later = as_tensorflow_asks(one.trace)[found.refused_event :]
    return next(event.key for event in later if event.key != SHAPE_KEY)


def mapped(pool: BfcPool) -> list[tuple[int, list[bfc_log.MappedChunk]]]:
    """The pool's regions and chunks as the log shows them: by address."""
    return [
        (pool.regions[base], [bfc_log.MappedChunk(c.address, c.size_bytes, not c.free) for c in chunks])
        for base, chunks in pool.chunks().items()
    ]


def run(seeds: list[int], folder: Path) -> None:
    """Run the traces of these seeds on the real allocator, in processes of their own."""
    command = [sys.executable, "-m", "tests.analysis.real_bfc", str(folder), *map(str, seeds)]
    deadline = 120 + 40 * -(-len(seeds) // TOGETHER)
    environment = {**os.environ, **ENVIRONMENT, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, timeout=deadline, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the real traces did not run: {done.stderr[-2000:]}")


def main(arguments: list[str]) -> None:
    """The program of `run`."""
    import tensorflow  # noqa: F401 - imported before the forks, and no context made

    folder = Path(arguments[0])
    for start in range(1, len(arguments), TOGETHER):
        seeds = [int(one) for one in arguments[start : start + TOGETHER]]
        children = [_forked(seed, folder) for seed in seeds]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
        if any(statuses):
            failed = [seed for seed, status in zip(seeds, statuses, strict=True) if status]
            raise SystemExit("\n".join((folder / f"{seed}.log").read_text()[-1000:] for seed in failed))


def _forked(seed: int, folder: Path) -> int:
    """The pid of a fork that runs one trace."""
    pid = os.fork()
    if pid == 0:
        status = 70
        try:
            log = os.open(folder / f"{seed}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(log, 2)
            (folder / f"{seed}.json").write_text(json.dumps(_on_tensorflow(case(seed))))
            status = 0
        except BaseException:  # what it was stands in the trace's log; the fork must end here whatever it was
            traceback.print_exc()
        finally:
            os._exit(status)
    return pid


def _on_tensorflow(one: Case) -> dict[str, int | str | None]:
    """The first refused buffer (None: the trace fits) and the peak of bytes in use, as TensorFlow says."""
    os.environ["TF_CPU_BFC_MEM_LIMIT_IN_MB"] = str(one.limit_mib)
    import tensorflow as tf

    held, refused = {}, None
    for event in one.trace:
        if isinstance(event, Free):
            del held[event.key]
            continue
        try:
            held[event.key] = _empty(tf, event.size_bytes)
        except tf.errors.ResourceExhaustedError:
            refused = event.key
            break
    peak = tf.config.experimental.get_memory_info("CPU:0")["peak"]
    if refused is None:
        with suppress(tf.errors.ResourceExhaustedError):
            _empty(tf, (one.limit_mib + 1) * MIB)
            raise AssertionError("a request above the limit was served")
    return {"refused_key": refused, "peak_bytes": peak, "version": tf.__version__}


def _empty(tf, size_bytes: int):  # type: ignore[no-untyped-def]
    return tf.raw_ops.Empty(shape=[size_bytes], dtype=tf.uint8, init=False)


if __name__ == "__main__":
    main(sys.argv[1:])
