"""What a compiler has to be told of a chip: its environment before the import, and its target."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from runners.specs import ChipSpec

#: The variable in which the study names the interpreter that compiles (its own).
INTERPRETER_VARIABLE = "STUDY_COMPILER_PYTHON"

#: The variable that names the folder which XLA dumps into; set by the trial, which removes it.
DUMP_VARIABLE = "STUDY_COMPILER_DUMP"

#: By platform: the distribution that holds the compiler, and the pip line that brings it.
COMPILERS = {
    "tpu": ("libtpu", "pip install -c constraints.txt -e '.[cpu]'"),
    "cuda": ("jax-cuda12-pjrt", "pip install -c constraints.txt -e '.[gpu-compile]'"),
    "cpu": ("jaxlib", "pip install -c constraints.txt -e '.[cpu]'"),
}

#: For every process that loads libtpu with no chip: the compiler's, and a tensorflow-tpu that lowers.
LIBTPU = {
    # without it, a second process at the same time aborts on libtpu's lock file
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    # libtpu asks the cloud's metadata server for these, for minutes, unless they are given
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_LOG_DIR": "disabled",
    "TPU_STDERR_LOG_LEVEL": "3",
}

#: The fields of a GPU target that are the same for every GPU since 2016 (CUDA C programming guide).
GPU_LIMITS = {
    "threads_per_block_limit": 1024,
    "threads_per_warp": 32,
    "shared_memory_per_block": 49_152,
    "block_dim_limit_x": 2_147_483_647,
    "block_dim_limit_y": 65_535,
    "block_dim_limit_z": 65_535,
    "thread_dim_limit_x": 1024,
    "thread_dim_limit_y": 1024,
    "thread_dim_limit_z": 64,
    "registers_per_core_limit": 65_536,
    "registers_per_block_limit": 65_536,
}
#: The libraries of the target, as XLA's own GPU targets give them.
GPU_LIBRARIES = {
    "driver_version": "13.0.0",
    "runtime_version": "12.8.0",
    "compile_time_toolkit_version": "12.8.0",
    "dnn_version": "9.10.0",
}


def interpreter() -> str:
    """The Python that compiles: the study's own, or this one where no study started us."""
    return os.environ.get(INTERPRETER_VARIABLE) or sys.executable


def environment(platform: str, folder: Path) -> dict[str, str]:
    """Variables that a compiler process needs before it imports anything; `folder` takes what XLA dumps."""
    # the dump is the only form in which CPU and GPU compilers tell when a buffer lives
    flags = f"--xla_dump_to={folder} --xla_dump_hlo_as_text"
    common = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false", "CUDA_VISIBLE_DEVICES": "-1"}
    if platform == "tpu":
        return {**common, **LIBTPU}
    if platform == "cuda":
        # autotuning measures on a device, and there is none
        flags += " --xla_gpu_autotune_level=0"
        return {**common, "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1", "XLA_FLAGS": flags}
    return {**common, "XLA_FLAGS": flags}


def describe(chip: ChipSpec | None) -> str:
    """The target in full: two chips with the same description have the same plans. Part of a plan's cache key."""
    if chip is None:
        return "cpu"
    return chip.topology if chip.platform == "tpu" else gpu_target(chip)


def name(chip: ChipSpec | None) -> str:
    """The target for a reader."""
    if chip is None:
        return "cpu"
    return chip.topology if chip.platform == "tpu" else f"{chip.name} (sm_{chip.gpu_target['compute_capability']})"


def gpu_target(chip: ChipSpec) -> str:
    """XLA's GpuTargetConfigProto in text form, built from the chip's data sheet."""
    figures = dict(chip.gpu_target)
    major, minor = str(figures.pop("compute_capability")).split(".")
    extension = "ACCELERATED_FEATURES" if figures.pop("accelerated_features", False) else "NONE"
    per_device = {
        "memory_bandwidth": int(chip.bandwidth_bytes_per_second) // chip.devices_per_chip,
        "device_memory_size": chip.usable_bytes,
    }
    fields = [f"{key}: {value}" for key, value in {**GPU_LIMITS, **figures, **per_device}.items()]
    fields += [f'{key}: "{value}"' for key, value in {**GPU_LIBRARIES, "name": chip.name}.items()]
    capability = f"cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}"
    dnn = " ".join(
        f"{part}: {value}"
        for part, value in zip(("major", "minor", "patch"), GPU_LIBRARIES["dnn_version"].split("."), strict=True)
    )
    return (
        f"gpu_device_info {{ {' '.join(fields)} {capability} }} "
        f'platform_name: "CUDA" dnn_version_info {{ {dnn} }} device_description_str: "{chip.name}"'
    )
