"""Prints the effective allocation mechanism of this process: `probe_mode.py jax|tf [LIMIT_BYTES]`."""

from __future__ import annotations

import dataclasses
import json
import sys

from runners import frameworks
from runners.probes import allocation, malloc
from runners.specs import AllocationSpec
from tests.runners.harness import make_spec


def main(framework: str, limit_bytes: int | None = None) -> None:
    spec = make_spec(framework, allocation=AllocationSpec("asked", limit_bytes=limit_bytes))
    runner = frameworks.load(framework)
    assert not runner.has_backend()
    found = malloc.probe_host_allocator()
    runner.open_device(spec)
    assert runner.has_backend()
    result = allocation.probe(spec, runner, found)
    peak = runner.device_memory()["device_live_peak"].value
    print(json.dumps({**dataclasses.asdict(result), "live_peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1], *(int(value) for value in sys.argv[2:]))
