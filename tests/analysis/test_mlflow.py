"""Trials as MLflow runs in a real SQLite store."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from analysis.__main__ import main
from tests.analysis import records_factory as factory

JAX, TF = factory.condition("jax"), factory.condition("tf")

pytestmark = [
    pytest.mark.usefixtures("svg_only"),
    pytest.mark.filterwarnings("ignore"),  # MLflow and its dependencies warn of their own future
]
needs_mlflow = pytest.mark.skipif(
    importlib.util.find_spec("mlflow") is None, reason="the extra mlflow is not installed"
)


@needs_mlflow
def test_every_trial_becomes_a_run_once(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    trials = [factory.trial(one, b, 0.01 * (1 + n)) for b in range(2) for n, one in enumerate((JAX, TF))]
    trials.append(factory.trial(JAX, 2, outcome="oom", reason="host memory"))
    folder = factory.write(tmp_path / "s", factory.session([JAX, TF], 3), *trials)
    uri = f"sqlite:///{tmp_path / 'runs.db'}"
    for _ in range(2):  # an export repeated adds nothing
        assert main([str(folder), "--quiet", "--mlflow", uri]) == 0
    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name("study-one")
    runs = client.search_runs([experiment.experiment_id])
    assert len(runs) == 5
    by_name = {run.info.run_name: run for run in runs}
    tf = by_name["tf · block 1"]
    assert tf.data.metrics["step_seconds"] == pytest.approx(0.02)
    assert "process_peak_bytes" not in tf.data.metrics
    assert (tf.data.params["workload.batch_size"], tf.data.tags["outcome"]) == ("256", "ok")
    failed = by_name["jax · block 2"]
    assert (failed.info.status, failed.data.tags["reason"]) == ("FAILED", "host memory")
    assert "step_seconds" not in failed.data.metrics


@needs_mlflow
def test_a_store_that_cannot_be_used_is_a_wrong_request(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01, blocks=1)
    assert main([str(folder), "--quiet", "--mlflow", "nonsense://nowhere"]) == 2
    assert "--mlflow nonsense://nowhere" in capsys.readouterr().err


def test_without_mlflow_the_request_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    folder = factory.study(tmp_path / "s", [JAX], lambda *_: 0.01, blocks=1)
    assert main([str(folder), "--quiet", "--mlflow", "sqlite:///x.db"]) == 2
    assert "pip install 'accelerator-study[mlflow]'" in capsys.readouterr().err
