"""What the page of Keras models refuses; that its models match is in tests/runners."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.runners.harness import environment, make_spec, run_trial, workload

pytest.importorskip("keras")


def test_dropout_is_off_while_a_model_trains_and_that_is_said() -> None:
    asked = workload("keras", model="MobileNet", mode="train")
    runs = [run_trial(make_spec(framework, workload=asked)) for framework in ("jax", "tf")]
    assert [run.status for run in runs] == [0, 0], runs[0].stderr + runs[1].stderr
    said = "dropout is off in 1 layers: each back end would draw a mask of its own"
    assert all(said in run.report.warnings for run in runs)
    first, second = (run.report.match.losses for run in runs)
    # a mask would show in the first loss; later on this model, which has no shortcuts, magnifies rounding
    assert first[:2] == pytest.approx(second[:2], rel=1e-4) and len(set(first)) == len(first) == 10


PROGRAM = """
from runners.frameworks import load
from tests.runners.harness import workload
load("jax")
from runners.faults import TrialFault
from runners.workloads import keras as page
import keras
page._built = lambda *_: keras.Sequential([keras.layers.Input((8, 8, 3)), keras.layers.GaussianNoise(0.1)])
try:
    page._model(workload("keras", model="Noisy", mode="train"))
except TrialFault as fault:
    print(fault.kind, fault.reason, str(fault), sep="|")
page._model(workload("keras", model="Noisy", mode="infer"))
"""


def test_a_model_with_other_random_layers_is_not_trained() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment("jax"), capture_output=True, text=True, timeout=120, check=True
    )
    kind, reason, text = done.stdout.strip().split("|")
    assert (kind, reason) == ("not_applicable", "random layers")
    assert "workload.model=Noisy draws random numbers while it trains (GaussianNoise)" in text
    assert "workload.mode=infer" in text


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
