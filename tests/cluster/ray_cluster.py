"""A Ray of two emulated nodes (namespaces.py), begun and ended with the test; the study's head is on the first."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from daemons import Daemons, listens, until
from namespaces import Node, joined
from sweeps import FAKE_FRAMEWORK

PORT = 6379
START_SECONDS = 200.0
VARIABLES = {
    "RAY_raylet_start_wait_time_s": "200",
    "RAY_AUTH_MODE": "disabled",
    "RAY_USAGE_STATS_ENABLED": "0",
    # workers are started by the raylets, and see what these see
    "PYTHONPATH": FAKE_FRAMEWORK,
}


@contextlib.contextmanager
def ray_cluster() -> Iterator[list[Node]]:
    """Two nodes, each with a raylet."""
    with tempfile.TemporaryDirectory(prefix="study-ray-", dir="/var/tmp") as name:
        folder = Path(name)
        nodes = [Node(f"node{number}", f"10.77.0.{10 + number}", folder / f"node{number}") for number in (1, 2)]
        with joined(nodes), Daemons(folder, VARIABLES) as daemons:
            first, second = nodes
            _start(daemons, first, "--head", f"--port={PORT}", "--include-dashboard=false")
            until(lambda: listens(PORT, first.address) and _has(daemons, first, 1), "Ray's first node", START_SECONDS)
            _start(daemons, second, f"--address={first.address}:{PORT}")
            until(lambda: _has(daemons, first, 2), "Ray's second node", START_SECONDS)
            yield nodes


def _start(daemons: Daemons, node: Node, *arguments: str) -> None:
    given = ["--block", "--num-cpus=2", f"--node-ip-address={node.address}", *arguments]
    daemons.start(*node.command(str(Path(sys.executable).parent / "ray"), "start", *given), log=node.name)


def _has(daemons: Daemons, node: Node, count: int) -> bool:
    """Whether the cluster can be joined from this node, and has so many of them."""
    code = "import ray, sys; ray.init(address='auto', log_to_driver=False); "
    code += f"sys.exit(sum(one['Alive'] for one in ray.nodes()) != {count})"
    return daemons.answers(*node.command(sys.executable, "-c", code))
