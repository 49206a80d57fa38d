"""From what a compiler and a data sheet say to a `Plan`. Standard library only; nothing here was measured."""

from __future__ import annotations

from dataclasses import replace

from runners.records import Plan
from runners.specs import ChipSpec, WorkloadSpec


def from_compiler(memory: dict[str, int], costs: dict[str, float], lowered: dict[str, float]) -> Plan:
    """The plan's bytes and costs. `memory` holds the compiler's fields by name, `costs` may be empty."""
    source, chosen = ("compiled module", costs) if costs.get("flops") else ("lowered module", lowered)
    plan = Plan(
        argument_bytes=memory.get("argument_size_in_bytes"),
        output_bytes=memory.get("output_size_in_bytes"),
        alias_bytes=memory.get("alias_size_in_bytes"),
        temp_bytes=memory.get("temp_size_in_bytes"),
        code_bytes=memory.get("generated_code_size_in_bytes"),
        flops=chosen.get("flops"),
        bytes_accessed=chosen.get("bytes accessed"),
        flops_source=source,
        lowered_flops=lowered.get("flops"),
        raw=dict(memory),
    )
    return replace(plan, peak_bytes=peak_bytes(plan))


def peak_bytes(plan: Plan) -> int | None:
    """argument + output − alias + temp + code, the one definition for every compiler; None where a part is missing."""
    signed = (
        (1, plan.argument_bytes),
        (1, plan.output_bytes),
        (-1, plan.alias_bytes),
        (1, plan.temp_bytes),
        (1, plan.code_bytes),
    )
    known = [sign * part for sign, part in signed if part is not None]
    return sum(known) if len(known) == len(signed) else None


def judged(plan: Plan, chip: ChipSpec | None, workload: WorkloadSpec) -> Plan:
    """The plan with what the chip's data sheet makes of it: whether it fits, and the predicted step time."""
    if chip is None:
        return plan
    seconds, bound = roofline(plan, chip, number_format(workload))
    margin = None if plan.peak_bytes is None else chip.usable_bytes - plan.peak_bytes
    return replace(
        plan,
        usable_bytes=chip.usable_bytes,
        margin_bytes=margin,
        # a TPU's compiler refuses what does not fit; a GPU's plans on
        fits=True if chip.platform == "tpu" else None if margin is None else margin >= 0,
        predicted_step_seconds=seconds,
        predicted_bound=bound,
    )


def number_format(workload: WorkloadSpec) -> str:
    """What the products are computed in: the precision asked for where the arrays are float32, else their dtype."""
    return workload.precision if workload.dtype == "float32" else workload.dtype


def roofline(plan: Plan, chip: ChipSpec, number: str) -> tuple[float | None, str | None]:
    """Predicted seconds a step on one device, and what binds: `arithmetic` or `bandwidth`.

    The larger of FLOP ÷ peak rate and bytes ÷ bandwidth; a lower bound, because no program reaches both. None where the
    sheet has no rate for the number format, or the plan no costs.
    """
    peak = chip.peak_flops.get(number)
    if not peak or plan.flops is None or plan.bytes_accessed is None:
        return None, None
    arithmetic = looped_flops(plan) * chip.devices_per_chip / peak
    bandwidth = plan.bytes_accessed * chip.devices_per_chip / chip.bandwidth_bytes_per_second
    return max(arithmetic, bandwidth), "arithmetic" if arithmetic >= bandwidth else "bandwidth"


def looped_flops(plan: Plan) -> float:
    """FLOP of a step. The cost analysis counts a loop's body once, `matrix_flops` as often as it runs: the larger."""
    return max(plan.flops or 0.0, float(plan.matrix_flops or 0))
