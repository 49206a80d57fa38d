"""From what is known of a trial's end to its outcome: pure functions of texts and numbers; anything unknown is a crash.

The patterns were taken from real texts (tests/recorded/endings): XLA and PJRT raise RESOURCE_EXHAUSTED in several
exception types, TensorFlow raises ResourceExhaustedError, the TPU compiler states sizes with the units K … E.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Any

from runners.records import Outcome, OutcomeKind, Phase

UNITS = {"": 1, "B": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}

OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|ResourceExhaustedError|CompileTimeHbmOom|Ran out of memory in memory space"
    r"|CUDA_ERROR_OUT_OF_MEMORY|Out of memory (?:allocating|while trying to allocate)|\bOOM when allocating\b"
    r"|std::bad_alloc|\w*MemoryError\b"
)
BUSY_OR_ABSENT = re.compile(
    r"Unable to initialize backend|No visible (?:GPU|TPU)|already in use by (?:a )?process|libtpu.*already in use"
    r"|CUDA_ERROR_NO_DEVICE|no CUDA-capable device|TPU backend.*not.*found|Device or resource busy.*(?:vfio|accel)"
)
UNKNOWN_SETTING = re.compile(
    r"Unknown flags? in XLA_FLAGS|Unknown command line flag|unrecognized flag"
    r"|Both XLA_PYTHON_CLIENT_MEM_FRACTION and XLA_CLIENT_MEM_FRACTION"
)
ASKED = (
    re.compile(r"required for [\w ]+ \((?P<n>[\d.]+)(?P<unit>[KMGTPE]?)B?\)"),
    re.compile(r"Used (?P<n>[\d.]+)(?P<unit>[KMGTPE]?) of [\d.]+[KMGTPE]? hbm"),
    re.compile(r"allocat(?:e|ing) (?P<n>[\d.]+) ?(?P<unit>[KMGTPE]?)(?:i?B|bytes)?\b"),
)
AVAILABLE = (
    re.compile(r"exceeds available HBM \((?P<n>[\d.]+)(?P<unit>[KMGTPE]?)B?\)"),
    re.compile(r"Used [\d.]+[KMGTPE]? of (?P<n>[\d.]+)(?P<unit>[KMGTPE]?) hbm"),
)
TENSOR_SHAPE = re.compile(r"OOM when allocating tensor with shape\[(?P<shape>[\d,]*)\] and type (?P<type>\w+)")
TYPE_BYTES = {
    "float": 4,
    "half": 2,
    "bfloat16": 2,
    "double": 8,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "int8": 1,
    "bool": 1,
}
LAST_LINES = 12


@dataclass
class Ending:
    """All that the parent knows once a trial's process is gone.

    `failure` is the child's own account (phase, exception, text, kind, reason), None where it could give none.
    `oom_kills` counts the kernel's out-of-memory kills during the trial; None where /proc/vmstat does not tell.
    """

    phase: Phase
    exit_code: int | None
    signal: int | None
    done: bool
    failure: dict[str, Any] | None = None
    expired: str | None = None
    stderr_tail: str = ""
    oom_kills: int | None = None
    leftovers: int = 0
    protocol_error: str | None = None


def classify(ending: Ending) -> Outcome:
    """The outcome of a trial, with phase, reason, the text a person needs, and bytes where the text gives them."""
    outcome = _kind(ending)
    outcome.phase = Phase(ending.failure["phase"]) if ending.failure and ending.failure.get("phase") else ending.phase
    outcome.exit_code = ending.exit_code
    outcome.signal = None if ending.signal is None else _signal_name(ending.signal)
    return outcome


def parse_bytes(number: str, unit: str) -> int:
    """Bytes of a size such as ("37.00", "G"); the units are powers of 1024, as XLA prints them."""
    return round(float(number) * UNITS[unit])


def _kind(ending: Ending) -> Outcome:
    if ending.expired is not None:
        text = f"the {ending.expired} was over; the process tree was ended. protocol.deadlines.PHASE sets a longer one"
        return Outcome(OutcomeKind.TIMEOUT, reason=ending.expired, text=_with_tail(text, ending))
    if ending.failure is not None:
        return _from_failure(ending.failure)
    if ending.protocol_error is not None:
        return Outcome(OutcomeKind.CRASH, reason="unreadable event", text=_with_tail(ending.protocol_error, ending))
    if ending.signal is not None:
        return _from_signal(ending)
    if ending.exit_code == 0 and ending.done:
        return _finished(ending)
    return _from_exit(ending)


def _finished(ending: Ending) -> Outcome:
    if ending.leftovers:
        text = f"{ending.leftovers} processes of the trial outlived it and were ended"
        return Outcome(OutcomeKind.INVALID, reason="leftover processes", text=text)
    return Outcome(OutcomeKind.OK)


def _from_failure(failure: dict[str, Any]) -> Outcome:
    name, text = str(failure.get("exception", "")), str(failure.get("text", ""))
    if failure.get("kind"):
        return Outcome(OutcomeKind(failure["kind"]), reason=str(failure.get("reason", "")), text=text)
    whole = f"{name}: {text}"
    known = _from_text(whole)
    if known is not None:
        return known
    return Outcome(OutcomeKind.CRASH, reason=name.rpartition(".")[2] or "exception", text=whole)


def _from_signal(ending: Ending) -> Outcome:
    assert ending.signal is not None
    name = _signal_name(ending.signal)
    if ending.signal == signal.SIGKILL and ending.oom_kills:
        text = f"the kernel's out-of-memory killer ended the process ({ending.oom_kills} kills counted meanwhile)"
        return Outcome(OutcomeKind.OOM, reason="host", text=_with_tail(text, ending))
    # a runtime that aborts says why on standard error first
    if ending.signal == signal.SIGABRT:
        known = _from_text(ending.stderr_tail)
        if known is not None:
            return known
    return Outcome(OutcomeKind.CRASH, reason=name, text=_with_tail(f"ended by {name}", ending))


def _from_exit(ending: Ending) -> Outcome:
    known = None if ending.exit_code == 0 else _from_text(ending.stderr_tail)
    if known is not None:
        return known
    reason = "exit without result" if ending.exit_code == 0 else f"exit status {ending.exit_code}"
    return Outcome(OutcomeKind.CRASH, reason=reason, text=_with_tail(f"{reason}, in the phase {ending.phase}", ending))


def _from_text(text: str) -> Outcome | None:
    """Out of memory, a device that is absent or busy, or an unknown setting; None for any other text."""
    if OUT_OF_MEMORY.search(text):
        compile_time = re.search("CompileTimeHbmOom|in memory space hbm|exceeds available HBM", text) is not None
        host = "std::bad_alloc" in text or "MemoryError" in text
        reason = "compile" if compile_time else "host" if host else "device"
        asked, available = _first_bytes(ASKED, text) or _tensor_bytes(text), _first_bytes(AVAILABLE, text)
        return Outcome(OutcomeKind.OOM, reason=reason, text=text, bytes_asked=asked, bytes_available=available)
    if UNKNOWN_SETTING.search(text):
        return Outcome(OutcomeKind.CONFIG, reason="unknown setting", text=text)
    if BUSY_OR_ABSENT.search(text):
        busy = re.search(r"in use|busy", text) is not None
        return Outcome(OutcomeKind.UNAVAILABLE, reason="device busy" if busy else "device absent", text=text)
    return None


def _first_bytes(patterns: tuple[re.Pattern[str], ...], text: str) -> int | None:
    for pattern in patterns:
        found = pattern.search(text)
        if found:
            return parse_bytes(found["n"].rstrip("."), found["unit"])
    return None


def _tensor_bytes(text: str) -> int | None:
    found = TENSOR_SHAPE.search(text)
    if found is None or found["type"] not in TYPE_BYTES:
        return None
    size = TYPE_BYTES[found["type"]]
    for extent in filter(None, found["shape"].split(",")):
        size *= int(extent)
    return size


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _with_tail(text: str, ending: Ending) -> str:
    lines = [line for line in ending.stderr_tail.splitlines() if line.strip()][-LAST_LINES:]
    return "\n".join([text, *(["last lines of standard error:", *lines] if lines else [])])
