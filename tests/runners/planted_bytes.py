"""Prints how far baseline and peak rise when memory is taken for a moment: `planted_bytes.py BYTES`."""

from __future__ import annotations

import json
import sys
import threading
import time

import numpy as np

from runners.probes import host, malloc


def spike(size: int) -> None:
    """Touch `size` bytes and give them back."""
    block = np.empty(size, np.uint8)
    block[::4096] = 1


def main(size: int) -> None:
    spike(2 * size)  # before the baseline: must not show
    warnings: list[str] = []
    host.settle(warnings)
    malloc.hand_back(malloc.probe_host_allocator())
    baseline = host.baseline()
    problem = host.reset_peak()
    thread = threading.Thread(target=spike, args=(size,))
    thread.start()
    thread.join()
    time.sleep(0.01)
    peak = host.peak()
    assert baseline.value is not None and peak.value is not None
    print(
        json.dumps(
            {
                "risen": peak.value - baseline.value,
                "bound": peak.error_bound_bytes,
                "baseline": baseline.value,
                "problem": problem,
                "warnings": warnings,
            }
        )
    )


if __name__ == "__main__":
    main(int(sys.argv[1]))
