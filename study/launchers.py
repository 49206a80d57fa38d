"""Hydra's launchers: which of them keep the study in this process, and what to ask of those that do not.

What a condition needs (a GPU, a TPU chip, cores) is put into the launcher's own configuration where nobody has set it.
"""

from __future__ import annotations

import copy
import importlib.util
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict

from study.errors import RequestError
from study.needs import Needs

#: Launcher (or our preset over it) → the plug-in's package and the line that brings it.
PLUGINS = {
    "submitit_slurm": ("hydra_submitit_launcher", "pip install -c constraints.txt -e '.[slurm]'"),
    "submitit_local": ("hydra_submitit_launcher", "pip install -c constraints.txt -e '.[slurm]'"),
    "slurm": ("hydra_submitit_launcher", "pip install -c constraints.txt -e '.[slurm]'"),
    "ray": ("hydra_ray_launcher", "pip install -e '.[ray]'"),
    "ray_cluster": ("hydra_ray_launcher", "pip install -e '.[ray]'"),
    "joblib": ("hydra_joblib_launcher", "pip install hydra-joblib-launcher"),
}
#: The class of Hydra that runs its jobs in this process.
IN_PROCESS = "hydra._internal.core_plugins.basic_launcher.BasicLauncher"

#: How the plug-in for Slurm can be asked for memory.
MEMORY = ("mem_gb", "mem_per_cpu", "mem_per_gpu")
#: What a job asks of Slurm.
REQUESTS = (
    "partition", "account", "qos", "constraint", "exclude", "nodes", "gpus_per_node", "gpus_per_task", "gres",
    "cpus_per_task", "cpus_per_gpu", *MEMORY, "timeout_min", "additional_parameters",
)  # fmt: skip

#: Values that the submitit plug-in has where nobody chose one.
UNCHOSEN = {"submitit_folder": "${hydra.sweep.dir}/.submitit/%j", "name": "${hydra.job.name}"}


def require_plugin(arguments: Sequence[str]) -> None:
    """Raise `RequestError` where the command names a launcher whose plug-in is not installed."""
    for key, _, name in (one.partition("=") for one in arguments):
        if key == "hydra/launcher" and name in PLUGINS and not is_installed(name):
            raise RequestError(
                f"hydra/launcher={name} needs a plug-in that is not installed; bring it with: {PLUGINS[name][1]}"
            )


def is_in_process(config: DictConfig) -> bool:
    """Whether this sweep's launcher runs its job in this process."""
    return bool(config.hydra.launcher._target_ == IN_PROCESS)


def prepared(config: DictConfig, needed: Needs, folder: Path, name: str) -> DictConfig:
    """The sweep's configuration with the launcher's gaps filled in: requests, the jobs' `name`, their logs' folder."""
    filled = copy.deepcopy(config)
    launcher = filled.hydra.launcher
    with open_dict(filled):
        if "submitit_folder" in launcher:
            _fill_submitit(launcher, needed, folder, name)
        elif "ray" in launcher:
            _fill_ray(launcher.ray, needed)
    return filled


def asked(config: DictConfig) -> str:
    """What a job asks of Slurm or Ray in this configuration, as settings that are not null."""
    launcher: Any = OmegaConf.to_container(config.hydra.launcher, resolve=False)
    held = {key: launcher.get(key) for key in REQUESTS}
    if "ray" in launcher:
        held = {key: value for key, value in launcher["ray"]["remote"].items() if not key.startswith("max_")}
    said = [f"{key}={value}" for key, value in held.items() if value not in (None, {})]
    return ", ".join(said) or "nothing"


def _fill_submitit(launcher: Any, needed: Needs, folder: Path, name: str) -> None:
    """A GPU for conditions on one; for conditions on the CPU the whole node, since all of it is the device.

    Its memory too: Slurm would hold an exclusive job to the cluster's default, and takes 0 as all there is (sbatch(1),
    --mem). Less cannot be said: a limit below what a trial turns out to need would kill it. On an accelerator nothing
    is asked for, since how much the host needs beside it is not known before.
    """
    asked: dict[str, Any] = OmegaConf.to_container(launcher, resolve=False)  # type: ignore[assignment]
    found = {"submitit_folder": str(folder.resolve() / ".submitit" / "%j"), "name": name}
    for key, value in found.items():
        if asked[key] == UNCHOSEN[key]:
            launcher[key] = value
    if asked["cpus_per_task"] is None:
        launcher.cpus_per_task = needed.cores
    otherwise = asked.get("gpus_per_task") or asked.get("gres")
    if asked["gpus_per_node"] is None and "gpu" in needed.kinds and not otherwise:
        launcher.gpus_per_node = 1
    if "cpu" in needed.kinds and "additional_parameters" in asked:
        further = asked["additional_parameters"]
        if not {"exclusive", "oversubscribe"} & set(further):
            launcher.additional_parameters = {**further, "exclusive": True}
        said = {key for key in MEMORY if asked.get(key) is not None} | {key for key in further if key.startswith("mem")}
        if not said and "oversubscribe" not in further:
            launcher.mem_gb = 0


def _fill_ray(ray: Any, needed: Needs) -> None:
    """As Ray counts: GPUs, TPU chips, and every core of a node for the CPU. A task has its own process.

    Ray holds a task to no amount of memory, it only looks for a node that has so much left (docs.ray.io, "Resources"):
    there the least that a trial needs is the right request.
    """
    kinds, remote = needed.kinds, ray.remote
    wanted: dict[str, Any] = {"max_calls": 1, "max_retries": 0}
    if needed.memory_bytes is not None:
        wanted["memory"] = needed.memory_bytes
    if "gpu" in kinds:
        wanted["num_gpus"] = 1
    if "tpu" in kinds:
        wanted["resources"] = {"TPU": 1}
    if "cpu" in kinds:
        wanted["num_cpus"] = ray.init.get("num_cpus") or os.cpu_count()
    elif needed.cores is not None:
        wanted["num_cpus"] = needed.cores
    for key, value in wanted.items():
        if key not in remote:
            remote[key] = value


def is_installed(name: str) -> bool:
    """Whether the plug-in of a launcher of `PLUGINS` is there."""
    try:
        return importlib.util.find_spec(f"hydra_plugins.{PLUGINS[name][0]}") is not None
    except ModuleNotFoundError:
        return False
