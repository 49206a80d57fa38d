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


def test_an_image_that_the_model_refuses_is_named() -> None:
    run = run_trial(make_spec("jax", workload=workload("keras", model="Xception", mode="infer")))
    assert (run.failure["kind"], run.failure["reason"]) == ("config", "model refuses its shape")
    assert "workload.model=Xception refuses workload.shape.image=64" in run.failure["text"]
    assert "at least 71x71" in run.failure["text"]


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_residual_sums_in_any_order_leave_the_model_alive(framework: str) -> None:
    """EfficientNet adds the shortcut last, NASNet two branches: no scale on the only way through may be zero."""
    for name in ("EfficientNetV2B0", "NASNetMobile"):
        asked = workload("keras", model=name, mode="infer", batch_size=1, shape={"image": 64, "classes": 10})
        run = run_trial(make_spec(framework, workload=asked))
        assert run.status == 0, run.stderr
        report = run.report
        # the inputs of inference come round after eight steps
        assert len(set(report.match.losses)) >= 8 and min(report.match.losses) > 0
        assert report.counts.own_matrix_flops == report.counts.traced_matrix_flops
        assert not [text for text in report.warnings if "no result of the step" in text]


def test_without_training_nothing_is_drawn() -> None:
    run = run_trial(make_spec("tf", workload=workload("keras", model="MobileNet", mode="infer")))
    assert (run.status, run.events[-1]["event"]) == (0, "done"), run.stderr
