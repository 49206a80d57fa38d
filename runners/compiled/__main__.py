"""`python -m runners.compiled`: one compilation in a process of its own. Started by a trial, not by hand.

Standard input is a socket. It brings one byte with the trial's standard error, which ours becomes; one JSON line (the
chip's data sheet or null for this machine's CPU, variables for our environment, form, donated); and then the lowered
module. One JSON line goes back, the plan or the error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import socket
from typing import Any, NoReturn

from runners import lines, records
from runners.faults import TrialFault
from runners.lifeline import die_with_parent
from runners.specs import ChipSpec


def main() -> NoReturn:
    """As a fresh interpreter: import what compiles while nobody has asked yet."""
    # what is missing is said in the answer, by the same import
    with contextlib.suppress(ImportError):
        import runners.compiled.planning  # noqa: F401
    serve(socket.socket(fileno=0))


def serve(connection: socket.socket) -> NoReturn:
    """Answer one request and end: exit status 0 where an answer was given, the plan or an error, or nothing asked."""
    die_with_parent()
    asked, handles, _, _ = socket.recv_fds(connection, 1, 1)
    if asked:
        for own in (1, 2):
            os.dup2(handles[0], own)
        with connection.makefile("rb") as request:
            header, module = json.loads(request.readline()), request.read()
        # where the trial has failed meanwhile, nobody reads the answer
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(lines.encode_line(_answered(header, module)).encode())
    # the compilers' own threads have nothing left to do, and some take seconds to say so
    os._exit(0)


def _answered(header: dict[str, Any], module: bytes) -> dict[str, Any]:
    os.environ.update(header["variables"])
    chip = None if header["chip"] is None else ChipSpec(**header["chip"])
    try:
        return {"plan": dataclasses.asdict(_planned(chip, module, header["form"], header["donated"]))}
    except TrialFault as fault:
        return {"fault": {"kind": fault.kind, "reason": fault.reason, "text": str(fault)}}
    except Exception as error:  # whatever the compiler raises: the study classifies it by its text
        return {"error": f"{type(error).__qualname__}: {error}"}


def _planned(chip: ChipSpec | None, module: bytes, form: str, donated: int) -> records.Plan:
    from runners.compiled import planning, xla

    xla.require_compiler("cpu" if chip is None else chip.platform)
    return planning.make_plan(chip, module, form, donated)


if __name__ == "__main__":
    main()
