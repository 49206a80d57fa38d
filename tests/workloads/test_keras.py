"""What the page of Keras models refuses; that its models match is in tests/runners."""

from __future__ import annotations

import pytest

from tests.runners.harness import make_spec, run_trial, workload

pytest.importorskip("keras")


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_a_model_with_dropout_is_not_trained(framework: str) -> None:
    asked = workload("keras", model="MobileNet", mode="train")
    run = run_trial(make_spec(framework, workload=asked))
    assert (run.status, run.failure["kind"], run.failure["reason"]) == (1, "not_applicable", "random layers")
    assert "workload.model=MobileNet draws random numbers while it trains (Dropout)" in run.failure["text"]
    assert "workload.mode=infer" in run.failure["text"]


def test_without_training_nothing_is_drawn() -> None:
    run = run_trial(make_spec("tf", workload=workload("keras", model="MobileNet", mode="infer")))
    assert (run.status, run.events[-1]["event"]) == (0, "done"), run.stderr
