"""How a compiled step is warmed, calibrated and measured: the same for every framework."""

from __future__ import annotations

import gc
import math
import statistics
from collections import Counter

from runners.channel import Channel
from runners.faults import TrialFault
from runners.probes import host
from runners.records import Phase, TrialReport
from runners.specs import ProtocolSpec
from runners.stepper import Stepper

#: Fewest warm-up steps from which `steady` is judged, and how far the last third's median may lie from the middle's.
STEADY_STEPS, STEADY_SHARE = 15, 0.05
#: How much longer than asked for a calibrated window is, so that a fast one does not fall short.
WINDOW_MARGIN = 1.1
#: Windows shorter than this are measured and warned of: the clock and the loop weigh too much in them.
SHORT_WINDOW_SECONDS = 0.1
#: The check that `synchronise` waits: steps a round, rounds, and how much longer than idle a fetch may take after it.
CHECK_STEPS, CHECK_ROUNDS, CHECK_SHARE, CHECK_FLOOR_SECONDS = 8, 5, 0.2, 1e-3


def first_steps(stepper: Stepper, match_steps: int, report: TrialReport, compile_phase_seconds: float) -> None:
    """The steps whose losses prove the match, one by one; they count as warm-up. At least two with every batch.

    Where compilation hides in the first call, it is what that call takes beyond the second with the same batch.
    """
    timings, cycle = report.timings, stepper.program.cycle
    for index in range(max(2 * cycle, match_steps)):
        timings.warmup_step_seconds.append(stepper.step())
        if index < match_steps:
            report.match.losses.append(stepper.loss())
    first, second = timings.warmup_step_seconds[0], timings.warmup_step_seconds[cycle]
    if cycle > 1:
        rounds = timings.warmup_step_seconds[:cycle], timings.warmup_step_seconds[cycle : 2 * cycle]
        timings.retrace_seconds = [once - again for once, again in zip(*rounds, strict=True)]
    timings.first_step_seconds = compile_phase_seconds + first
    if stepper.program.first_call_compiles:
        timings.compile_seconds = stepper.program.trace_seconds + max(0.0, first - second)
    stepper.build_fence()


def warm_up(stepper: Stepper, protocol: ProtocolSpec, report: TrialReport) -> None:
    """Synchronised steps until both minima are met or either cap is reached; the first call's time does not count."""
    times = report.timings.warmup_step_seconds
    seconds = sum(times[1:])
    while not _warm(protocol, len(times), seconds):
        times.append(stepper.step())
        seconds += times[-1]
    # steps over batches of different shapes are never alike
    report.timings.steady = is_steady(times) if stepper.program.cycle == 1 else None
    report.counts.traces = stepper.program.traces()


def _warm(protocol: ProtocolSpec, steps: int, seconds: float) -> bool:
    enough = steps >= protocol.warmup_steps and seconds >= protocol.warmup_seconds
    return enough or steps >= protocol.warmup_max_steps or seconds >= protocol.warmup_max_seconds


def is_steady(times: list[float]) -> bool | None:
    """Whether the last third's median lies within 5 % of the middle third's; None for fewer than 15 steps."""
    if len(times) < STEADY_STEPS:
        return None
    third = len(times) // 3
    middle, last = statistics.median(times[third : 2 * third]), statistics.median(times[-third:])
    return abs(last - middle) <= STEADY_SHARE * middle


def calibrate(stepper: Stepper, protocol: ProtocolSpec, report: TrialReport) -> int:
    """Steps per window: from the warm-up's median, grown until a trial window is long enough, then frozen.

    Where batches come in turn, a window holds whole rounds of them, so that every window does the same work.
    """
    check_synchronises(stepper)
    target, cycle = WINDOW_MARGIN * protocol.window_seconds, stepper.program.cycle
    settled = report.timings.warmup_step_seconds[cycle:]
    steps = _whole_rounds(math.ceil(target / statistics.median(settled)), cycle)
    while (seconds := stepper.window(steps).seconds) < target:
        steps = _whole_rounds(max(steps + 1, min(2 * steps, math.ceil(steps * target / seconds))), cycle)
    report.timings.steps_per_window = steps
    return steps


def _whole_rounds(steps: int, cycle: int) -> int:
    return math.ceil(steps / cycle) * cycle


def check_synchronises(stepper: Stepper) -> None:
    """Prove that `synchronise` waits: a fetch after it must take about as long as a fetch when nothing is running.

    The allowance is a fifth of the steps' time and at least 1 ms, in the median of five rounds. Raises `TrialFault`.
    """
    stepper.step()
    idle = statistics.median(stepper.fetch() for _ in range(CHECK_ROUNDS))
    rounds = [stepper.fetch_after_synchronise(CHECK_STEPS) for _ in range(CHECK_ROUNDS)]
    fetch = statistics.median(fetch for _, fetch in rounds)
    working = statistics.median(sum(pair) for pair in rounds)
    if fetch - idle > max(CHECK_SHARE * working, CHECK_FLOOR_SECONDS):
        raise TrialFault(
            "invalid",
            "synchronise did not wait",
            f"fetching one number took {fetch * 1e3:.3f} ms after synchronising and {idle * 1e3:.3f} ms when idle, of "
            f"{working * 1e3:.3f} ms for {CHECK_STEPS} steps: the work was not finished when the framework said so.",
        )


def measure(stepper: Stepper, protocol: ProtocolSpec, channel: Channel, report: TrialReport) -> None:
    """The windows, taken in turns with other trials where the protocol says so; the garbage collector is off."""
    steps, traces = report.timings.steps_per_window or 1, stepper.program.traces()
    totals: Counter[str] = Counter()
    swap = host.swap_in_use_bytes()
    gc.collect()
    gc.disable()
    for index in range(protocol.windows):
        _begin_window(index, protocol.interleave, channel)
        before = host.counters()
        window = stepper.window(steps)
        totals.update({name: value - before[name] for name, value in host.counters().items() if name in before})
        report.timings.window_start_seconds.append(window.start_seconds)
        report.timings.window_seconds.append(window.seconds)
        report.counts.traces = stepper.program.traces()
        _require_no_retrace(index, traces, report.counts.traces)
    gc.enable()
    report.counters = {**totals, "steps_measured": steps * protocol.windows}
    _warn(report, host.swap_in_use_bytes() - swap)


def _begin_window(index: int, interleave: bool, channel: Channel) -> None:
    """Wait for the turn, if turns are taken; the first grant opens the measuring phase."""
    if interleave:
        if index == 0:
            channel.phase(Phase.WAIT)
        channel.turn()
    if index == 0:
        channel.phase(Phase.MEASURE)


def require_traces(traces: int, declared: int) -> None:
    """Raise `TrialFault` where the step was traced more often before the measurement than its workload declares."""
    if traces != declared:
        right = "its shapes are fixed, so once is right" if declared == 1 else f"its workload declares {declared}"
        raise TrialFault(
            "invalid",
            "too many traces" if traces > declared else "too few traces",
            f"the step was traced {traces} times before the measurement; {right}.",
        )


def _require_no_retrace(window: int, before: int, now: int) -> None:
    if now != before:
        raise TrialFault(
            "invalid",
            "retrace while measuring",
            f"the step was traced {now - before} more time(s) in window {window}: its time holds compilation.",
        )


def _warn(report: TrialReport, swap_growth_bytes: int) -> None:
    short = sum(seconds < SHORT_WINDOW_SECONDS for seconds in report.timings.window_seconds)
    if short:
        report.warnings.append(f"{short} of {len(report.timings.window_seconds)} windows shorter than 100 ms")
    if swap_growth_bytes > 0:
        report.warnings.append(f"swap in use grew by {swap_growth_bytes} bytes while measuring")
    if report.timings.steady is False:
        report.warnings.append("no steady state: warm-up steps were still changing by more than 5 %")
