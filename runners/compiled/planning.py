"""One plan: from the cache where the same module was compiled before, else from the compiler. Runs in its process."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from runners import lines
from runners.compiled import boundary, buffers, cache, flops, plan, targets, xla
from runners.records import Plan
from runners.specs import ChipSpec


class Refused(RuntimeError):
    """The compiler found too little memory, now or when this module was first compiled; the text is its own."""


def make_plan(chip: ChipSpec | None, data: bytes, form: str, donated: int) -> Plan:
    """The plan of a lowered module. Raises `Refused` where its memory is too small."""
    module = xla.parse(data, form, donated)
    compiler = xla.version("cpu" if chip is None else chip.platform)
    identity = cache.module_hash(module.canonical_text())
    name = cache.key(identity, compiler, targets.describe(chip))
    stored, unkept = cache.read(name), ""
    if stored is None:
        made = _compiled(module, chip)
        unkept = _keep(name, made)
    else:
        made = stored
    if "refused" in made:
        raise Refused(made["refused"])
    found = replace(lines.plan_from_dict(made["plan"]), module_hash=identity, compiler=compiler)
    note = "; ".join(filter(None, [found.note, unkept]))
    return replace(found, note=note, cached=stored is not None, target=targets.name(chip))


def _keep(name: str, made: dict[str, Any]) -> str:
    """Put the plan into the cache; what went wrong in a sentence, which costs a later run its time and no result."""
    try:
        cache.write(name, made)
    except OSError as error:
        return f"the plan could not be kept for another run: {error.filename or cache.folder()}: {error.strerror}"
    return ""


def _compiled(module: xla.Module, chip: ChipSpec | None) -> dict[str, Any]:
    """What the cache keeps: the plan, or the compiler's refusal for want of memory, which is as lasting an answer."""
    try:
        compiled = xla.compile_module(module, chip)
    except xla.jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" in str(error):
            return {"refused": str(error)}
        raise
    made = plan.from_compiler(compiled.memory, compiled.costs, xla.lowered_costs(module))
    with module.context:
        made.matrix_flops = flops.matrix_flops(module.stablehlo)
        made.argument_buffers, made.output_buffers, made.aliased_outputs = boundary.buffers(module.stablehlo)
    made.compile_seconds, made.note = compiled.seconds, compiled.note
    dump = os.environ.get(targets.DUMP_VARIABLE)
    if dump is not None:
        made.live_bytes, made.largest_buffers = buffers.from_dump(Path(dump))
    known = made.largest_buffers is not None
    made.live_bytes_source = "buffer assignment dumped by XLA" if known else "this compiler gives no buffer assignment"
    return {"plan": dataclasses.asdict(made)}
