"""`python -m runners.compiled CHIP`: one compilation in a process of its own. Started by a trial, not by hand.

CHIP is the data sheet as a JSON object, or null for this machine's CPU. Standard input brings one JSON line (form,
donated) and then the lowered module; standard output gives one JSON line, the plan or the error. What the
compiler prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from typing import Any, BinaryIO

from runners import lines, records
from runners.faults import TrialFault
from runners.lifeline import die_with_parent
from runners.specs import ChipSpec


def main(arguments: list[str]) -> int:
    """Exit status 0 where an answer was given, the plan or an error."""
    die_with_parent()
    requests, answer = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    sheet = json.loads(arguments[0])
    chip = None if sheet is None else ChipSpec(**sheet)
    # where the trial has failed meanwhile, nobody reads the answer
    with contextlib.suppress(BrokenPipeError):
        answer.write(lines.encode_line(_answered(chip, requests)).encode())
        answer.close()
    # the compilers' own threads have nothing left to do, and some take seconds to say so
    sys.stderr.flush()
    os._exit(0)


def _answered(chip: ChipSpec | None, requests: BinaryIO) -> dict[str, Any]:
    try:
        return {"plan": dataclasses.asdict(_planned(chip, requests))}
    except TrialFault as fault:
        return {"fault": {"kind": fault.kind, "reason": fault.reason, "text": str(fault)}}
    except Exception as error:  # whatever the compiler raises: the study classifies it by its text
        return {"error": f"{type(error).__qualname__}: {error}"}


def _planned(chip: ChipSpec | None, requests: BinaryIO) -> records.Plan:
    """Importing comes first, while the framework is still lowering."""
    from runners.compiled import planning, xla

    xla.require_compiler("cpu" if chip is None else chip.platform)
    header = json.loads(requests.readline())
    return planning.make_plan(chip, requests.read(), header["form"], header["donated"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
