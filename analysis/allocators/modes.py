"""The canonical allocation modes on a GPU, each as the pool that a framework builds for it.

The same facts as conf/allocation states by environment and calls. Sources: jaxlib's xla_client.py
(generate_pjrt_gpu_plugin_options: fraction 0.75 of the total), OpenXLA's se_gpu_pjrt_client.cc, TensorFlow's
gpu_device.cc (MinSystemMemory: what its default leaves free). A TPU has one mode, and its allocator is not modelled;
vmm and unified memory are not modelled either.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from analysis.allocators.async_pool import AsyncPool
from analysis.allocators.bfc import BfcPool
from analysis.allocators.driver import DRIVER_GRANULARITY_BYTES, MIB, Driver
from analysis.allocators.platform import PlatformPool
from analysis.allocators.pool import Pool
from analysis.allocators.preallocated import UpperEndPool

#: What JAX preallocates, and what conf/allocation/preallocate.yaml asks of both frameworks.
DEFAULT_FRACTION = 0.75
#: From this jaxlib on a preallocated pool is filled from its upper end; read in 0.12.0.1, absent in 0.10.2.
UPPER_END_SINCE = (0, 12)
#: TensorFlow's reserve for the system by major compute capability, in MiB: at least this one, up to the next.
SYSTEM_RESERVE_MIB = {0: 500, 7: 1050, 8: 1536, 9: 1800}
#: Below so much free memory the reserve is smaller.
LITTLE_MEMORY_BYTES, LITTLE_RESERVE_MIB = 2**31, 225


@dataclass(frozen=True)
class Device:
    """A GPU as a new process meets it: its total memory, and what is free once the process has its context."""

    total_bytes: int
    free_bytes: int
    compute_capability: float
    granularity_bytes: int = DRIVER_GRANULARITY_BYTES

    def driver(self) -> Driver:
        """A driver with what is free."""
        return Driver(self.free_bytes, self.granularity_bytes)


@dataclass(frozen=True)
class Mode:
    """A mode of one framework. `build` makes its pool from the device, the fraction asked for, and the version."""

    framework: str
    name: str
    build: Callable[[Device, float, str], Pool]


def modes(framework: str) -> list[Mode]:
    """The modes of `jax` or `tf` that are modelled, in the order of the canonical table."""
    return [mode for mode in MODES if mode.framework == framework]


def tf_default_limit_bytes(device: Device) -> int:
    """Free memory less TensorFlow's reserve for the system."""
    if device.free_bytes < LITTLE_MEMORY_BYTES:
        reserve = LITTLE_RESERVE_MIB
    else:
        reserve = next(mib for least, mib in reversed(SYSTEM_RESERVE_MIB.items()) if device.compute_capability >= least)
    return max(device.free_bytes - reserve * MIB, 0)


def _share(device: Device, fraction: float) -> int:
    return int(device.total_bytes * fraction)


def _whole_mib(device: Device, fraction: float) -> int:
    """TensorFlow takes its limit in whole MiB."""
    return _share(device, fraction) // MIB * MIB


def jax_preallocated(device: Device, fraction: float, version: str) -> Pool:
    """JAX's preallocated pool as of the version: classic, or filled from its upper end.

    Raises:
        ValueError: the version does not begin with two numbers.
    """
    limit = _share(device, fraction)
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None:
        raise ValueError(f"JAX's version {version!r} does not begin with two numbers: name one such as 0.12.0.1.")
    if (int(found[1]), int(found[2])) >= UPPER_END_SINCE:
        return UpperEndPool(device.driver(), limit)
    return BfcPool(device.driver(), limit, growth=False)


def _jax_default(device: Device, _: float, version: str) -> Pool:
    return jax_preallocated(device, DEFAULT_FRACTION, version)


def _jax_growth(device: Device, *_: object) -> Pool:
    return BfcPool(device.driver(), device.total_bytes, growth=True)


def _jax_growth_capped(device: Device, fraction: float, _: str) -> Pool:
    return BfcPool(device.driver(), _share(device, fraction), growth=True)


def _jax_async_reserved(device: Device, fraction: float, _: str) -> Pool:
    reserved = _share(device, fraction)
    return AsyncPool(device.driver(), keep_bytes=reserved, reserved_bytes=reserved)


def _async_elastic(device: Device, *_: object) -> Pool:
    return AsyncPool(device.driver(), keep_bytes=0)


def _platform(device: Device, *_: object) -> Pool:
    return PlatformPool(device.driver())


def _tf_default(device: Device, *_: object) -> Pool:
    return BfcPool(device.driver(), tf_default_limit_bytes(device), growth=False, garbage_collection=True)


def _tf_preallocated(device: Device, fraction: float, _: str) -> Pool:
    return BfcPool(device.driver(), _whole_mib(device, fraction), growth=False, garbage_collection=True)


def _tf_growth(device: Device, *_: object) -> Pool:
    return BfcPool(device.driver(), tf_default_limit_bytes(device), growth=True)


def _tf_growth_capped(device: Device, fraction: float, _: str) -> Pool:
    return BfcPool(device.driver(), _whole_mib(device, fraction), growth=True)


def _tf_async_reserved(device: Device, *_: object) -> Pool:
    limit = tf_default_limit_bytes(device)
    return AsyncPool(device.driver(), keep_bytes=limit, reserved_bytes=limit)


def _tf_async(device: Device, *_: object) -> Pool:
    return AsyncPool(device.driver(), keep_bytes=tf_default_limit_bytes(device))


MODES = (
    Mode("jax", "default", _jax_default),
    Mode("jax", "preallocate", jax_preallocated),
    Mode("jax", "growth_capped", _jax_growth_capped),
    Mode("jax", "growth", _jax_growth),
    Mode("jax", "platform", _platform),
    Mode("jax", "async_reserved", _jax_async_reserved),
    Mode("jax", "async_elastic", _async_elastic),
    Mode("tf", "default", _tf_default),
    Mode("tf", "preallocate", _tf_preallocated),
    Mode("tf", "growth_capped", _tf_growth_capped),
    Mode("tf", "growth", _tf_growth),
    Mode("tf", "platform", _platform),
    Mode("tf", "async_reserved", _tf_async_reserved),
    Mode("tf", "async_elastic", _tf_async),
)
