"""Small conditions, records and sessions for the tests of study/."""

from __future__ import annotations

from typing import Any

from runners.records import Outcome, OutcomeKind, Phase, SessionRecord, Timings, TrialRecord, TrialReport
from runners.specs import AllocationSpec, DeviceSpec, FrameworkSpec, ProtocolSpec, TrialSpec, WorkloadSpec
from study.config import Blocks, Condition, digest
from study.schema import Allocation, AllocationEntry, EvidenceRequest

PROTOCOL = ProtocolSpec(
    name="smoke",
    warmup_steps=2,
    warmup_seconds=0.001,
    warmup_max_steps=4,
    warmup_max_seconds=1.0,
    windows=3,
    window_seconds=0.001,
    match_steps=2,
    interleave=True,
    deadline_seconds={"total": 20.0},
)


def spec(block: int = 0, **changes: Any) -> TrialSpec:
    """A trial of the fake framework."""
    values: dict[str, Any] = {
        "trial_id": digest({"block": block, **{key: str(value) for key, value in changes.items()}}),
        "condition_id": "0" * 16,
        "block": block,
        "order": 0,
        "seed": 7,
        "evidence": "measured",
        "framework": FrameworkSpec("fake", "jit"),
        "device": DeviceSpec("cpu"),
        "allocation": AllocationSpec("default"),
        "workload": WorkloadSpec("elementwise", "tiny", 8, "float32", {"width": 16}),
        "protocol": PROTOCOL,
        "settings": {"framework": "fake", "compile": "jit", "protocol.start": "zygote"},
    }
    return TrialSpec(**{**values, **changes})


def record(block: int, *, windows: tuple[float, ...] = (0.1, 0.1, 0.1), **changes: Any) -> TrialRecord:
    """An ok record with these window times in seconds, one step each."""
    timings = Timings(steps_per_window=1, window_seconds=list(windows))
    return TrialRecord(
        spec=spec(block, **changes),
        outcome=Outcome(OutcomeKind.OK, Phase.TEARDOWN),
        report=TrialReport(timings=timings),
        session_id="a",
    )


def session(session_id: str) -> SessionRecord:
    """A session that ran nothing in particular."""
    return SessionRecord(session_id, "study", "2026-01-01T00:00:00+00:00", {}, "0" * 16, {})


def condition(framework: str = "fake", compile: str = "jit", **changes: Any) -> Condition:
    """A condition without an allocation mode of its own; `settings` follow framework, compile and `extra`."""
    extra = changes.pop("extra", {})
    values: dict[str, Any] = {
        "settings": {"framework": framework, "compile": compile, "allocation": "default", **extra},
        "framework": FrameworkSpec(framework, compile),
        "device": DeviceSpec("cpu"),
        "allocation": Allocation(),
        "entry": AllocationEntry(),
        "workload": WorkloadSpec("elementwise", "tiny", 8, "float32", {"width": 16}),
        "protocol": PROTOCOL,
        "blocks": Blocks(3, 3, None),
        "start": "spawn",
        "evidence": EvidenceRequest.auto,
    }
    return Condition(**{**values, **changes})
