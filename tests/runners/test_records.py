"""The schema: both ways without loss, and every damage to a line noticed."""

from __future__ import annotations

import dataclasses
import json
import math
import subprocess
import sys

import pytest

from runners import lines
from runners.lines import RecordError
from runners.records import Outcome, OutcomeKind, Phase, Quantity, SessionRecord, TrialRecord, TrialReport
from tests.runners.harness import ROOT, environment, make_spec


def record() -> TrialRecord:
    report = TrialReport(warnings=['ü\u2028 "quoted"\n'], counters={"minor_faults": 0.0})
    report.memory = {"host_peak": Quantity(0, "read", 4096), "device_live_peak": Quantity(None, "not collected")}
    report.timings.window_seconds = [0.1, math.inf, 1e-300]
    report.match.losses = [math.nan, -math.inf, 0.1 + 0.2]
    return TrialRecord(make_spec(), Outcome(OutcomeKind.OOM, Phase.MEASURE, "oom", bytes_asked=2**40), report)


def test_a_record_survives_its_line() -> None:
    line = lines.encode_line(record())
    assert line.count("\n") == 1
    back = lines.trial_from_dict(lines.decode_line(line))
    assert math.isnan(back.report.match.losses[0])
    back.report.match.losses[0] = 0.0
    expected = record()
    expected.report.match.losses[0] = 0.0
    assert back == expected
    assert isinstance(back.outcome.kind, OutcomeKind)
    assert isinstance(back.spec.allocation.accepts, tuple)


def test_a_text_that_is_no_unicode_costs_a_character_and_no_record() -> None:
    told = b"no such file: caf\xe9".decode(errors="surrogateescape")
    line = lines.encode_line({"kind": "trial", "text": told})
    assert lines.decode_line(line.encode().decode())["text"] == "no such file: caf?"


def test_zero_and_not_measured_stay_apart() -> None:
    memory = lines.trial_from_dict(lines.decode_line(lines.encode_line(record()))).report.memory
    assert memory["host_peak"].value == 0
    assert memory["device_live_peak"].value is None


def test_a_spec_and_a_session_survive_their_lines() -> None:
    assert lines.spec_from_dict(lines.decode_line(lines.encode_line(make_spec()))) == make_spec()
    session = SessionRecord(
        "s", "study", "2025-01-01T00:00:00Z", {"cpus": 2}, "hash", {"factors": {"framework": ["jax"]}}
    )
    assert lines.session_from_dict(lines.decode_line(lines.encode_line(session))) == session


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda line: line[: len(line) // 2], "not a JSON line"),
        (lambda line: line.replace('"block":0', '"block":1'), "does not fit the line"),
        (lambda line: line.replace(',"checksum"', ',"check"'), "no checksum"),
        (lambda _: "[1]\n", "a JSON list"),
        (lambda line: line + "}", "not a JSON line"),
    ],
)
def test_a_damaged_line_is_refused_and_says_how(damage, words) -> None:
    with pytest.raises(RecordError, match=words):
        lines.decode_line(damage(lines.encode_line(record())))


def test_another_schema_version_is_refused() -> None:
    body = json.loads(json.dumps(dataclasses.asdict(record())))
    body["spec"]["schema_version"] = 99
    with pytest.raises(RecordError, match="schema version 99"):
        lines.trial_from_dict(body)


def test_an_unknown_field_is_named() -> None:
    body = dataclasses.asdict(make_spec())
    with pytest.raises(RecordError, match="TrialSpec has no field colour"):
        lines.spec_from_dict({**body, "colour": "red"})


def test_records_needs_the_standard_library_only() -> None:
    code = (
        "import sys; before = set(sys.modules); import runners.records; "
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'runners'}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment(""), check=True
    )
    assert done.stdout.strip() == "[]"
