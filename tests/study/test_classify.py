"""Outcomes from real texts (tests/recorded/endings) and from signals, exits and deadlines."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from runners.records import OutcomeKind, Phase
from study.classify import Ending, classify, parse_bytes

ENDINGS = Path(__file__).parent.parent / "recorded" / "endings"


def raised(name: str, phase: Phase = Phase.FIRST_STEP) -> Ending:
    """What the parent knows when the child has reported an exception with a recorded text."""
    exception, _, text = (ENDINGS / f"{name}.txt").read_text().partition(": ")
    failure = {"phase": phase.value, "exception": exception, "text": text, "kind": None, "reason": "exception"}
    return Ending(phase=phase, exit_code=1, signal=None, done=False, failure=failure)


def aborted(name: str) -> Ending:
    """What the parent knows when the process aborted with a recorded standard error."""
    text = (ENDINGS / f"{name}.stderr").read_text()
    return Ending(phase=Phase.PLACE, exit_code=None, signal=signal.SIGABRT, done=False, stderr_tail=text)


@pytest.mark.parametrize(
    ("name", "reason", "asked", "available"),
    [
        ("jax_cpu_allocation", "device", 4 * 2**40, None),
        ("tf_xla_bfc_limit", "device", 4 * 2**40, None),
        # shape[1048576,1048576] of float: 2^20 · 2^20 · 4 bytes
        ("tf_graph_bfc_limit", "device", 4 * 2**40, None),
        ("tf_graph_system_allocator", "device", 4 * 2**40, None),
        # 93.22G of 15.75G, G = 2^30
        ("tpu_compile_hbm_libtpu_0_0_42", "compile", 100_094_212_833, 16_911_433_728),
    ],
)
def test_out_of_memory_is_recognised_with_its_bytes(name: str, reason: str, asked: int, available: int | None) -> None:
    outcome = classify(raised(name))
    assert (outcome.kind, outcome.reason) == (OutcomeKind.OOM, reason)
    assert outcome.bytes_asked == pytest.approx(asked, abs=1)
    assert outcome.bytes_available == available
    assert outcome.phase is Phase.FIRST_STEP


def test_the_newer_compile_time_text_is_recognised() -> None:
    text = (
        "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: the total memory required for HLO temporaries (37.00G) "
        "exceeds available HBM (15.75G)"
    )
    failure = {"phase": "compile", "exception": "jax.errors.JaxRuntimeError", "text": text, "kind": None}
    outcome = classify(Ending(phase=Phase.COMPILE, exit_code=1, signal=None, done=False, failure=failure))
    assert (outcome.kind, outcome.reason, outcome.phase) == (OutcomeKind.OOM, "compile", Phase.COMPILE)
    assert (outcome.bytes_asked, outcome.bytes_available) == (37 * 2**30, 63 * 2**28)


@pytest.mark.parametrize("name", ["jax_unknown_flag", "tf_unknown_flag"])
def test_an_unknown_flag_is_a_setting_and_not_memory(name: str) -> None:
    outcome = classify(aborted(name))
    assert (outcome.kind, outcome.reason, outcome.signal) == (OutcomeKind.CONFIG, "unknown setting", "SIGABRT")
    assert "--xla_no_such_flag=1" in outcome.text


def test_an_absent_device_is_unavailable() -> None:
    outcome = classify(raised("jax_tpu_absent", Phase.PLACE))
    assert (outcome.kind, outcome.reason) == (OutcomeKind.UNAVAILABLE, "device absent")


def test_a_held_tpu_is_busy() -> None:
    ending = aborted("tpu_busy")
    ending.signal, ending.exit_code = None, 1
    outcome = classify(ending)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.UNAVAILABLE, "device busy")


def test_an_array_that_numpy_cannot_make_is_host_memory() -> None:
    text = "Unable to allocate 186. TiB for an array with shape (25600000000000,) and data type float64"
    failure = {"phase": "place", "exception": "numpy._core._exceptions._ArrayMemoryError", "text": text, "kind": None}
    outcome = classify(Ending(phase=Phase.PLACE, exit_code=1, signal=None, done=False, failure=failure))
    assert (outcome.kind, outcome.reason, outcome.bytes_asked) == (OutcomeKind.OOM, "host", 186 * 2**40)


def killed(number: int, oom_kills: int | None) -> Ending:
    return Ending(phase=Phase.MEASURE, exit_code=None, signal=number, done=False, oom_kills=oom_kills)


def test_sigkill_is_memory_only_with_a_counted_kill() -> None:
    assert classify(killed(signal.SIGKILL, 1)).kind is OutcomeKind.OOM
    assert classify(killed(signal.SIGKILL, 0)).kind is OutcomeKind.CRASH
    assert classify(killed(signal.SIGKILL, None)).kind is OutcomeKind.CRASH
    assert classify(killed(signal.SIGSEGV, 1)).reason == "SIGSEGV"


def test_a_deadline_goes_before_what_its_kill_looks_like() -> None:
    ending = killed(signal.SIGKILL, 1)
    ending.expired = "deadline of 5 s for the phase measure"
    outcome = classify(ending)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.TIMEOUT, "deadline of 5 s for the phase measure")


def test_exit_zero_without_a_result_is_a_crash() -> None:
    ending = Ending(phase=Phase.WARMUP, exit_code=0, signal=None, done=False, stderr_tail="bye\n")
    outcome = classify(ending)
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CRASH, "exit without result")
    assert outcome.text.endswith("bye")


def test_an_unknown_exception_is_a_crash_with_its_text() -> None:
    failure = {"phase": "compile", "exception": "builtins.ValueError", "text": "no such axis 7", "kind": None}
    outcome = classify(Ending(phase=Phase.COMPILE, exit_code=1, signal=None, done=False, failure=failure))
    assert (outcome.kind, outcome.reason) == (OutcomeKind.CRASH, "ValueError")
    assert outcome.text == "builtins.ValueError: no such axis 7"


def test_leftover_processes_make_a_trial_invalid() -> None:
    ending = Ending(phase=Phase.TEARDOWN, exit_code=0, signal=None, done=True, leftovers=2)
    assert classify(ending).kind is OutcomeKind.INVALID
    ending.leftovers = 0
    assert classify(ending).kind is OutcomeKind.OK


def test_units_are_powers_of_1024() -> None:
    sizes = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50, "E": 2**60}
    assert {unit: parse_bytes("1.00", unit) for unit in sizes} == sizes
