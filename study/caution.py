"""What is said before a study starts, because a person would rather know it then."""

from __future__ import annotations

from rich.console import Console

from runners.records import Evidence
from study.applicability import evidence
from study.design import Design


def caution(design: Design, console: Console) -> None:
    """Say, before anything starts, that a size of an accelerator is about to be measured on a CPU."""
    launched = [one for one in design.conditions if one.condition_id not in design.unlaunched]
    measured = [one for one in launched if one.device.kind == "cpu" and evidence(one) is Evidence.MEASURED]
    if any(one.workload.size == "paper" for one in measured):
        console.print(
            "workload.size=paper has the dimensions of an accelerator: measured on this CPU a model's step can take a "
            "minute and gigabytes of memory, which no estimate knows. workload.size=default is made for two cores.",
            style="yellow",
        )
