"""Allocation settings that contradict each other, or that their reader takes for something else: refused before launch.

Sources: jaxlib/xla_client.py, generate_pjrt_gpu_plugin_options; tensorflow/python/eager/context.py,
set_logical_device_configuration; tensorflow/core/common_runtime/gpu/gpu_bfc_allocator.cc, GetAllowGrowthValue, and
gpu_process_state.cc.
"""

from __future__ import annotations

from study.errors import RequestError
from study.schema import AllocationEntry

#: A variable → the values that its reader takes for what they say. JAX takes FALSE and no for true; TensorFlow's growth
#: knows these two words only.
VALUES = {
    "XLA_PYTHON_CLIENT_PREALLOCATE": ("true", "false"),
    "XLA_PYTHON_CLIENT_ALLOCATOR": ("default", "bfc", "platform", "cuda_async", "vmm", "address"),
    "TF_FORCE_GPU_ALLOW_GROWTH": ("true", "false"),
    "TF_ENABLE_GPU_GARBAGE_COLLECTION": ("true", "false"),
    "TF_GPU_ALLOCATOR": ("cuda_malloc", "cuda_malloc_async", "memory_guard"),
}
#: Settings that exclude each other, and why.
EXCLUSIVE = (
    ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION", "JAX refuses the two together; the second is old"),
    ("memory_growth", "memory_limit_mib", "TensorFlow refuses the two calls together"),
    ("gpu_memory_fraction", "memory_limit_mib", "TensorFlow takes one of them for the limit"),
)


def require_no_conflict(entry: AllocationEntry, where: str) -> None:
    """Raise `RequestError` where what the entry sets, with a cap or without, contradicts itself; `where` names it."""
    for environment, calls in (
        (entry.capped_environment, entry.capped_calls),
        (entry.uncapped_environment, entry.uncapped_calls),
    ):
        values = {**entry.environment, **environment}
        _require_values(values, where)
        given = {*values, *calls}
        for one, other, why in EXCLUSIVE:
            if {one, other} <= given:
                raise RequestError(f"{where} sets both {one} and {other}: {why}. Leave one of them out.")


def _require_values(environment: dict[str, str], where: str) -> None:
    for name, known in VALUES.items():
        if name in environment and environment[name] not in known:
            raise RequestError(f"{where}: {name}={environment[name]} is not possible; it takes {', '.join(known)}")
