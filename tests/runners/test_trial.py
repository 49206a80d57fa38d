"""Whole trials in processes of their own: what they measure, and that a broken one is caught."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from runners import lines, protocol
from runners.records import Phase
from runners.specs import AllocationSpec, DeviceSpec
from tests.runners.harness import HERE, PROTOCOL, ROOT, Run, environment, make_spec, run_trial, workload

AFTER = (str(HERE / "after_trial.py"),)
PHASES = ["import", "place", "probe", "compile", "first_step", "warmup", "calibrate", "measure", "teardown"]


@pytest.fixture(scope="module")
def jax_run() -> Run:
    turns = replace(PROTOCOL, interleave=True)
    return run_trial(make_spec("jax", protocol=turns, device=DeviceSpec("cpu", cpus=(0,))), AFTER)


@pytest.fixture(scope="module")
def tf_run() -> Run:
    return run_trial(make_spec("tf"), AFTER)


@pytest.fixture(scope="module", params=["jax", "tf"])
def run(request: pytest.FixtureRequest) -> Run:
    return request.getfixturevalue(f"{request.param}_run")


def test_a_good_trial_ends_with_done_and_nothing_on_stdout_but_ours(run) -> None:
    assert (run.status, run.events[-1]["event"]) == (0, "done"), run.stderr
    assert len(run.stdout.splitlines()) == 1


def test_phases_come_in_order_and_turns_before_every_window(jax_run, tf_run) -> None:
    assert tf_run.phases == PHASES
    assert jax_run.phases == [*PHASES[:-2], "wait", *PHASES[-2:]]
    kinds = [event["event"] for event in jax_run.events]
    assert kinds.count("turn") == PROTOCOL.windows
    assert "turn" not in [event["event"] for event in tf_run.events]
    starts = [event["at_seconds"] for event in jax_run.events if event["event"] == "phase"]
    assert starts == sorted(starts)
    assert jax_run.report.timings.phase_start_seconds == dict(zip(jax_run.phases, starts, strict=True))


def test_one_framework_per_trial(jax_run, tf_run) -> None:
    assert jax_run.stdout.strip() == "['jax', 'jaxlib']"
    assert tf_run.stdout.strip() == "['tensorflow']"


def test_the_frameworks_are_matched_to_each_other_and_to_the_reference(jax_run, tf_run) -> None:
    jax, tf = jax_run.report, tf_run.report
    assert jax.match.input_hash == tf.match.input_hash
    assert jax.match.reference_losses == tf.match.reference_losses
    assert len(jax.match.losses) == len(tf.match.losses) == PROTOCOL.match_steps
    np.testing.assert_allclose(jax.match.losses, tf.match.losses, rtol=1e-4)
    np.testing.assert_allclose(jax.match.losses, jax.match.reference_losses, rtol=1e-4)
    assert jax.counts == tf.counts
    assert jax.counts.traces == 1


def test_timings_agree_with_each_other(run) -> None:
    timings = run.report.timings
    assert len(timings.warmup_step_seconds) == PROTOCOL.warmup_steps
    assert len(timings.window_seconds) == len(timings.window_start_seconds) == PROTOCOL.windows
    for start, seconds, following in zip(
        timings.window_start_seconds, timings.window_seconds, [*timings.window_start_seconds[1:], np.inf], strict=True
    ):
        assert start + seconds <= following
    assert min(timings.window_seconds) * 2 > PROTOCOL.window_seconds  # calibrated for it; a machine may hurry a little
    assert timings.first_step_seconds > timings.warmup_step_seconds[0] > statistics.median(timings.warmup_step_seconds)
    assert timings.first_step_seconds >= timings.trace_seconds + timings.warmup_step_seconds[0]


def test_compile_time_is_told_with_its_method(jax_run, tf_run) -> None:
    jax, tf = jax_run.report.timings, tf_run.report.timings
    assert jax.compile_method == "ahead_of_time"
    assert jax.compile_seconds > jax.trace_seconds + jax.lower_seconds
    assert tf.compile_method == "first_minus_second_call"
    assert tf.lower_seconds is None
    first, second = tf.warmup_step_seconds[:2]
    assert tf.compile_seconds == pytest.approx(tf.trace_seconds + first - second)


def test_the_steady_peak_is_that_of_one_step(jax_run, tf_run) -> None:
    memory = jax_run.report.memory
    slack = memory["host_steady_peak"].error_bound_bytes
    assert memory["host_steady_baseline"].value <= memory["host_steady_peak"].value + slack
    assert tf_run.report.memory["host_steady_peak"].value is None


@pytest.mark.parametrize("donate", [True, False])
@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_the_steady_peak_is_state_results_and_temporaries(framework: str, donate: bool) -> None:
    """64 MiB of state, updated in place or into as much again; TensorFlow's XLA takes one more array (no fusion)."""
    asked = workload("elementwise", "tiny", batch_size=2**14, shape={"width": 1024}, donate=donate)
    protocol = replace(PROTOCOL, warmup_steps=2, windows=1, match_steps=1)
    system = AllocationSpec(
        "platform", environment={"TF_ONEDNN_USE_SYSTEM_ALLOCATOR": "1"} if framework == "tf" else {}
    )
    run = run_trial(make_spec(framework, workload=asked, allocation=system, protocol=protocol))
    assert run.status == 0, run.stderr
    memory = run.report.memory
    mib = (memory["host_steady_peak"].value - memory["host_steady_baseline"].value) / 2**20
    arrays = 1 if donate else 2
    extra = {"jax": 0, "tf": 1}[framework]
    assert mib == pytest.approx(64 * (arrays + extra), abs=16)


def test_memory_is_a_number_or_not_measured_never_a_false_zero(jax_run, tf_run) -> None:
    for run in (jax_run, tf_run):
        memory = run.report.memory
        device = {"device_live_peak", "device_pool_peak", "process_peak", "device_total_used"}
        device |= {"device_largest_free_block", "device_fragmented_free", "device_memory"}
        assert set(memory) == {"host_baseline", "host_peak", "host_steady_baseline", "host_steady_peak", *device}
        assert 0 < memory["host_baseline"].value < memory["host_peak"].value
        assert memory["process_peak"].value is None
        assert all(quantity.source for quantity in memory.values())
    assert jax_run.report.memory["device_live_peak"].value is None
    assert tf_run.report.memory["device_live_peak"].value != 0


def test_counters_cover_the_measured_windows(run) -> None:
    report = run.report
    assert report.counters["steps_measured"] == report.timings.steps_per_window * PROTOCOL.windows
    assert report.counters["user_seconds"] + report.counters["system_seconds"] > 0
    assert report.counters["minor_faults"] >= 0
    assert any("shorter than 100 ms" in warning for warning in report.warnings)


def test_settings_that_change_the_comparison_are_recorded(jax_run, tf_run) -> None:
    assert jax_run.report.knobs["matmul_precision"] == "highest"
    assert tf_run.report.knobs["tensor_float_32"] is False
    assert tf_run.report.knobs["jit_compile"] is True
    assert jax_run.report.knobs["cpu_count"] == 1  # the spec binds it to CPU 0
    assert tf_run.report.knobs["cpu_count"] == len(os.sched_getaffinity(0))
    for run, framework in ((jax_run, "jax"), (tf_run, "tensorflow")):
        versions = run.report.versions
        assert versions["framework"] == next(versions[key] for key in versions if key.startswith(framework))


def test_a_graph_trial_without_donation_does_the_same_work(tf_run) -> None:
    spec = make_spec("tf", "graph", workload=workload(donate=False))
    run = run_trial(spec)
    assert run.status == 0, run.stderr
    np.testing.assert_allclose(run.report.match.losses, tf_run.report.match.losses, rtol=1e-4)
    assert run.report.knobs["jit_compile"] is False


@pytest.mark.parametrize(
    ("mutant", "changes", "kind", "reason", "phase"),
    [
        (
            "without_synchronisation",
            {"workload": workload("matmul", "default")},
            "invalid",
            "synchronise did not wait",
            Phase.CALIBRATE,
        ),
        ("retrace_while_measuring", {}, "invalid", "retrace while measuring", Phase.MEASURE),
        ("retrace_while_warming", {}, "invalid", "too many traces", Phase.WARMUP),
        ("retrace_while_calibrating", {}, "invalid", "too many traces", Phase.CALIBRATE),
        ("workload_exits", {}, None, "exception", Phase.PLACE),
        ("workload_raises", {}, None, "exception", Phase.COMPILE),
    ],
)
def test_a_broken_trial_is_caught(mutant, changes, kind, reason, phase) -> None:
    run = run_trial(make_spec("jax", **changes), (str(HERE / "mutants.py"), mutant))
    assert run.status == 1
    assert run.events[-1]["event"] == "failed"
    assert (run.failure["kind"], run.failure["reason"], run.failure["phase"]) == (kind, reason, phase)
    assert run.report.memory["host_peak"].value > 0  # what was known before the failure is kept


@pytest.mark.parametrize(
    ("changes", "kind", "words"),
    [
        ({"allocation": AllocationSpec("growth", accepts=("bfc",))}, "invalid", "posix_memalign serves"),
        ({"device": DeviceSpec("gpu")}, "unavailable", "asks for device=gpu, but JAX put its arrays on 'cpu'"),
        (
            {
                "allocation": AllocationSpec("default", environment={"JAX_PLATFORMS": "cuda"}),
                "device": DeviceSpec("gpu"),
            },
            "unavailable",
            "JAX finds no gpu",
        ),
        (
            {"allocation": AllocationSpec("default", environment={"JAX_PLATFORMS": ""})},
            "config",
            "JAX_PLATFORMS is not set",
        ),
        (
            {"device": DeviceSpec("cpu", cpus=(0, 4095))},
            "unavailable",
            "asks for CPUs [0, 4095], but this process may use",
        ),
        ({"workload": workload(dtype="int8")}, "config", "mlp has no dtype 'int8'; it offers float32"),
    ],
    ids=["mode", "platform", "no-gpu", "platforms-unset", "cpus", "dtype"],
)
def test_a_trial_that_cannot_be_valid_says_why(changes, kind, words) -> None:
    run = run_trial(make_spec("jax", **changes))
    assert (run.status, run.failure["kind"]) == (1, kind)
    assert words in run.failure["text"]
    assert run.failure["exception"] == "runners.faults.TrialFault"


def test_tensorflow_without_a_gpu_is_unavailable() -> None:
    run = run_trial(make_spec("tf", device=DeviceSpec("gpu")))
    assert (run.status, run.failure["kind"], run.failure["reason"]) == (1, "unavailable", "device absent")
    assert "lists no GPU" in run.failure["text"]


def test_the_child_ends_when_its_parent_is_gone() -> None:
    events_read, events_write = os.pipe()
    control_read, control_write = os.pipe()
    child = subprocess.Popen(
        [sys.executable, "-m", "runners", str(events_write), str(control_read)],
        cwd=ROOT,
        env=environment("jax"),
        pass_fds=(events_write, control_read),
    )
    for descriptor in (events_write, control_read):
        os.close(descriptor)
    spec = make_spec("jax", protocol=replace(PROTOCOL, interleave=True))
    os.write(control_write, lines.encode_line(spec).encode())
    os.close(control_write)
    with os.fdopen(events_read) as told:
        last = [lines.decode_line(line) for line in told][-1]
    assert (child.wait(), last["event"]) == (1, "turn")


@pytest.mark.parametrize("arguments", [[], ["x", "y"], ["98", "99"]])
def test_a_call_by_hand_explains_itself(arguments) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "runners", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment(""),
        check=False,
    )
    assert done.returncode == 2
    assert "python -m study framework=jax" in done.stderr


def test_the_walls() -> None:
    code = (
        "import sys, runners.__main__, runners.trial, runners.workloads.mlp, runners.workloads.matmul, "
        "runners.workloads.elementwise; walls = {'study', 'analysis', 'pandas', 'hydra', 'jax', 'tensorflow'}; "
        "print(sorted(walls & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment(""), check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("times", "steady"),
    [
        ([1.0] * 14, None),
        ([9.0] * 5 + [1.0] * 10, True),
        ([1.0] * 10 + [1.06] * 5, False),
        ([1.0] * 10 + [0.94] * 5, False),
    ],
)
def test_steadiness(times, steady) -> None:
    assert protocol.is_steady(times) is steady
