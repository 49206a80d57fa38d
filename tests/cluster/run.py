"""Real sweeps over real launchers on this machine, with workers, heads and nodes killed, against a local sweep.

    python tests/cluster/run.py                 every launcher whose plug-in is installed here
    python tests/cluster/run.py joblib          two processes; needs nothing else
    python tests/cluster/run.py slurm           a Slurm of one node, started and stopped by this script (as root)
    python tests/cluster/run.py slurm_two       a Slurm of two emulated nodes (as root)
    python tests/cluster/run.py ray             a Ray of this machine
    python tests/cluster/run.py ray_two         a Ray of two emulated nodes (as root)

Exit status 1 where anything differs from the local sweep.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import namespaces
import scenarios
import slurm_scenarios
from ray_cluster import VARIABLES, ray_cluster
from slurm import Slurm, missing, slurm
from sweeps import TRIALS, Launcher, check, heads_ended, kill_worker

from study import launchers

Scenario = Callable[[Launcher, Path], None]

ANYWHERE: list[Scenario] = [partial(scenarios.a_killed_job, kill=kill_worker), scenarios.a_killed_head]
ON_TWO_NODES = [
    slurm_scenarios.blocks_stay_on_a_node, slurm_scenarios.conditions_go_anywhere, slurm_scenarios.unlike_nodes,
    slurm_scenarios.a_drained_node, slurm_scenarios.a_dead_node,
    slurm_scenarios.a_dead_node_whose_job_goes_on_elsewhere, slurm_scenarios.a_killed_slurmd,
]  # fmt: skip


def joblib(folder: Path) -> None:
    """Processes of this machine."""
    _go_through(Launcher("joblib", ["hydra.launcher.n_jobs=2"]), folder, ANYWHERE)


def one_slurm(folder: Path) -> None:
    """A Slurm whose only node is this machine."""
    with slurm(1) as running:
        launcher = Launcher("submitit_slurm", variables=running.variables)
        killed = partial(scenarios.a_killed_job, kill=partial(_cancel, running))
        requeued = partial(slurm_scenarios.a_requeued_job, slurm=running)
        _go_through(launcher, folder, [killed, scenarios.a_killed_head, requeued])


def two_slurm(folder: Path) -> None:
    """A Slurm of two emulated nodes; of one, where there can be none."""
    reason = namespaces.impossible()
    if reason is not None:
        print(f"no emulated nodes: {reason}; a Slurm of one node instead", flush=True)
        one_slurm(folder)
        return
    with slurm(2) as running:
        launcher = Launcher("slurm", variables=running.variables)
        _go_through(launcher, folder, [partial(one, slurm=running) for one in ON_TWO_NODES])


def one_ray(folder: Path) -> None:
    """A Ray of this machine."""
    arguments = ["+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.init.include_dashboard=false"]
    _go_through(Launcher("ray", arguments, VARIABLES), folder, ANYWHERE)


def two_ray(folder: Path) -> None:
    """A Ray of two emulated nodes; of one, where there can be none."""
    reason = namespaces.impossible()
    if reason is not None:
        print(f"no emulated nodes: {reason}; a Ray of this machine instead", flush=True)
        one_ray(folder)
        return
    with ray_cluster() as (first, _):
        launcher = Launcher("ray_cluster", [], VARIABLES, lambda command, where: first.command(*command, folder=where))
        _go_through(launcher, folder, ANYWHERE)


def _cancel(running: Slurm, study: Path) -> None:  # noqa: ARG001
    running.says("scancel", "--signal=KILL", next(iter(running.running_jobs())))


def _go_through(launcher: Launcher, folder: Path, chosen: list[Scenario]) -> None:
    for scenario in chosen:
        before = time.monotonic()
        print(f"  {getattr(scenario, 'func', scenario).__name__.replace('_', ' ')}: {TRIALS} trials", flush=True)
        scenario(launcher, folder)
        print(f"    took {time.monotonic() - before:.0f} s", flush=True)


KINDS = {"joblib": joblib, "slurm": one_slurm, "slurm_two": two_slurm, "ray": one_ray, "ray_two": two_ray}


def _possible() -> list[str]:
    """Those whose plug-ins and programs are here."""
    plugins = {"joblib": "joblib", "slurm": "slurm", "slurm_two": "slurm", "ray": "ray", "ray_two": "ray"}
    there = [name for name, plugin in plugins.items() if launchers.is_installed(plugin)]
    alone = namespaces.impossible() is not None
    left_out = {"slurm", "slurm_two"} if missing() else set()
    return [name for name in there if name not in left_out and not (alone and name.endswith("_two"))]


def main(names: list[str]) -> None:
    """Run the scenarios of each of these kinds."""
    with tempfile.TemporaryDirectory(prefix="study-cluster-", dir="/var/tmp") as made, heads_ended():
        folder, before = Path(made).resolve(), time.monotonic()
        print(f"local: {TRIALS} trials", flush=True)
        status, text = Launcher("basic").sweep(folder, "local", report=True)
        check(status == 0, f"the local sweep ends with 0, found {status}", text)
        print(f"    took {time.monotonic() - before:.0f} s", flush=True)
        for name in names or _possible():
            before = time.monotonic()
            print(name, flush=True)
            own = folder / name
            (own / "outputs").mkdir(parents=True)
            (own / "outputs" / "local").symlink_to(folder / "outputs" / "local")
            KINDS[name](own)
            print(f"  {name} took {time.monotonic() - before:.0f} s in all", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
