"""The compiler itself, through JAX's internals: this is the only file that uses them. Importing it imports JAX.

Tried with JAX 0.10.2 and 0.12.0; a test compiles for every platform, so that a version that moved them is noticed.
"""

from __future__ import annotations

import importlib.metadata
import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters import mlir
from jax._src.lib import hlo, xla_client
from jax._src.lib.mlir import ir
from jax.experimental import topologies

from runners.compiled import targets
from runners.faults import TrialFault
from runners.specs import ChipSpec

#: What XLA's GPU compiler says of a product that Triton's default tiles do not fit. On a device tuning finds others or
#: leaves the product to cuBLAS; without one nothing is tuned, and it is left to cuBLAS by this option.
UNTILED = "Couldn't find output tile sizes"
WITHOUT_TRITON = {"xla_gpu_enable_triton_gemm": "False"}


@dataclass
class Module:
    """A lowered step: as StableHLO to compile, and as HLO to hash and to analyse."""

    context: Any
    stablehlo: Any
    computation: Any

    def canonical_text(self) -> str:
        """HLO text without metadata, large constants included."""
        options = hlo.HloPrintOptions.canonical()
        options.print_large_constants = True
        options.print_metadata = False
        return self.computation.get_hlo_module().to_string(options)


@dataclass
class Compiled:
    """What the compiler says: its memory figures by name, its cost analysis (empty where it has none), its seconds.

    `note` says what it had to be told.
    """

    memory: dict[str, int]
    costs: dict[str, float]
    seconds: float
    note: str = ""


def parse(data: bytes, form: str, donated: int) -> Module:
    """A module from `stablehlo` text, or from a serialised `hlo` proto whose first `donated` arguments are given away.

    Argument i is given to result i. StableHLO from JAX says so by itself.
    """
    context = mlir.make_ir_context()
    with context:
        if form == "stablehlo":
            module = ir.Module.parse(data.decode())
        else:
            text = xla_client._xla.mlir.xla_computation_to_mlir_module(hlo.XlaComputation(data))
            module = ir.Module.parse(text)
            _donate(module, donated)
        computation = xla_client._xla.mlir.mlir_module_to_xla_computation(
            mlir.module_to_bytecode(module), use_tuple_args=False, return_tuple=False
        )
    return Module(context, module, computation)


def _donate(module: Any, donated: int) -> None:
    (main,) = (one for one in module.body.operations if getattr(one, "name", None) and one.name.value == "main")
    attributes = [{name.name: name.attr for name in one} for one in main.arg_attrs]
    index_type = ir.IntegerType.get_signless(32)
    for index in range(donated):
        attributes[index]["tf.aliasing_output"] = ir.IntegerAttr.get(index_type, index)
    main.arg_attrs = ir.ArrayAttr.get([ir.DictAttr.get(one) for one in attributes])


def compile_module(module: Module, chip: ChipSpec | None) -> Compiled:
    """Compile for one device of `chip` (None: for this machine's CPU).

    Raises:
        TrialFault: unavailable, where the compiler is not installed or knows no such target.
        jax.errors.JaxRuntimeError: whatever the compiler says, out of memory included.
    """
    device, note = _device(chip), ""
    began = time.monotonic()
    try:
        executable = _compile(module, device, {})
    except jax.errors.JaxRuntimeError as error:
        if UNTILED not in str(error):
            raise
        executable = _compile(module, device, WITHOUT_TRITON)
        note = "compiled without Triton's products: without a device to tune on, their tiles do not fit one of them"
    seconds = time.monotonic() - began
    statistics = executable.get_compiled_memory_stats()
    names = [name for name in dir(statistics) if name.endswith(("_in_bytes", "_bytes"))]
    memory = {name: int(value) for name in names if isinstance(value := getattr(statistics, name), int)}
    return Compiled(memory, _costs(executable), seconds, note)


def _compile(module: Module, device: Any, overrides: dict[str, str]) -> Any:
    options = compiler.get_compile_options(
        num_replicas=1,
        num_partitions=1,
        device_assignment=np.array([[device.id]]),
        env_options_overrides=overrides or None,
        backend=device.client,
    )
    with module.context:
        return compiler.backend_compile_and_load(
            device.client, module.stablehlo, xla_client.DeviceList((device,)), options, []
        )


def lowered_costs(module: Module) -> dict[str, float]:
    """XLA's cost analysis of the lowered module, by a CPU client: a client without a device refuses."""
    client = jax.devices("cpu")[0].client
    return dict(xla_client._xla.hlo_module_cost_analysis(client, module.computation.get_hlo_module()))


def version(platform: str) -> str:
    """The compiler's distributions and their versions."""
    names = ["jaxlib"] if platform == "cpu" else ["jaxlib", targets.COMPILERS[platform][0]]
    return ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)


def require_compiler(platform: str) -> None:
    """Raise `TrialFault` (unavailable) with the line that installs it where the platform's compiler is not there."""
    name, line = targets.COMPILERS[platform]
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        text = f"the compiler for {platform} is not installed ({name}); bring it with: {line}"
        raise TrialFault("unavailable", "compiler not installed", text) from None


def _device(chip: ChipSpec | None) -> Any:
    if chip is None:
        return jax.devices("cpu")[0]
    try:
        if chip.platform == "tpu":
            return topologies.get_topology_desc(platform="tpu", topology_name=chip.topology).devices[0]
        extra = {"target_config": targets.gpu_target(chip), "topology": "1x1x1"}
        return topologies.get_topology_desc(platform="cuda", topology_name="", **extra).devices[0]
    except (jax.errors.JaxRuntimeError, NotImplementedError) as error:
        text = f"{version(chip.platform)} knows no target {targets.name(chip)}: {error}"
        raise TrialFault("unavailable", "target unknown to the compiler", text) from error


def _costs(executable: Any) -> dict[str, float]:
    """Empty where the platform's compiler has no cost analysis (CUDA)."""
    try:
        found = executable.cost_analysis()
    except jax.errors.JaxRuntimeError as error:
        if "UNIMPLEMENTED" in str(error):
            return {}
        raise
    found = found[0] if isinstance(found, list) else found
    return dict(found or {})
