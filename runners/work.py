"""What a framework's trace of a step says of the step's work: the FLOPs of its matrix products and convolutions.

A product counts where it depends on an input and an output depends on it. One that no output needs is dead code, which
every compiler drops; one that depends on no input is a constant, which a compiler may compute once and for all. Either
would be timed as work that was never done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from runners.faults import TrialFault
from runners.workloads.page import WorkCounts

#: How far a page's own count may be from the traced one, as a share.
COUNT_SHARE = 0.01


@dataclass
class TracedWork:
    """FLOPs of matrix products and convolutions: `written` in the trace, and `needed` of these.

    `constant` names the outputs that depend on no input, `ignored` the arrays of the batch that no output depends on.
    None in `needed`: a loop whose length the trace does not tell.
    """

    written: int
    needed: int | None
    constant: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()


def require_real_work(traced: TracedWork, own: WorkCounts, where: str) -> list[str]:
    """Raise `TrialFault` (invalid) where the step's result, or its work, is not what the page says it is.

    Returns warnings: of arrays of the batch that are not used and, where a page counts nothing, of products that matter
    to no output.
    """
    if traced.constant:
        raise TrialFault(
            "invalid",
            "constant result",
            f"{where}: {', '.join(traced.constant)} depends on no input, so it can be computed once for all steps. "
            "Take what the step computes with from state and batch, not from arrays made outside or inside the step.",
        )
    warnings = []
    if traced.ignored:
        names = ", ".join(traced.ignored)
        warnings.append(f"{where}: no result of the step depends on {names}; examples a second count what it skips")
    if traced.needed is None:
        return warnings
    lost = f"the trace holds {traced.written:,} FLOPs of products and convolutions, of which {traced.needed:,} "
    lost += "depend on an input and reach an output"
    if traced.written and not traced.needed:
        raise TrialFault(
            "invalid", "dead or constant work", f"{where}: {lost}. Return what they compute, from state and batch."
        )
    counted = own.matrix_flops
    if counted is not None and abs(traced.needed - counted) > COUNT_SHARE * counted:
        raise TrialFault(
            "invalid",
            "work is not as counted",
            f"{where} counts {counted:,} FLOPs of products and convolutions a step; {lost}. They may differ by 1 %: "
            "work that no output needs (dead code), that depends on no input (a constant), or a wrong count.",
        )
    if counted is None and traced.needed < (1 - COUNT_SHARE) * traced.written:
        warnings.append(f"{lost}; the rest is dropped, which is right for gradients that nobody asked for")
    return warnings


def product_flops(output: Sequence[int], contracted: Sequence[int]) -> int:
    """2 · (elements of the output) · (length of every sum)."""
    return 2 * prod(output) * prod(contracted)


def taps(size: int, kernel: int, output: int, stride: int, low: int, *, holes: int = 1, spread: int = 1) -> int:
    """(output, kernel) positions of one axis whose input is there: neither padding nor a hole between its elements.

    `low` is the padding before the first element; `holes` the distance of input elements (an input dilation), `spread`
    that of kernel elements.
    """
    found = 0
    for tap in range(kernel):
        positions = (at * stride + tap * spread - low for at in range(output))
        found += sum(0 <= position <= (size - 1) * holes and position % holes == 0 for position in positions)
    return found
