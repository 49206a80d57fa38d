"""Trials as MLflow runs, after the study: `--mlflow sqlite:///runs.db`. Optional; needs the extra mlflow.

One experiment a study, one run a trial. A trial that is there already (by its id, session and outcome) is left alone,
so that an export can be repeated.
"""

from __future__ import annotations

import datetime as dt
import math
import os
from typing import Any

from analysis.columns import COLUMNS
from analysis.frames import records
from analysis.load import Journals
from analysis.request import RequestError
from runners.records import OutcomeKind

#: Tag that holds a trial's identity.
KEY = "study.trial"

#: MLflow takes no more of each in one request.
MOST_METRICS = 1000
MOST_PARAMS = 100
MOST_PARAM_LENGTH = 6000

_METRICS = [column.name for column in COLUMNS if column.dtype in ("Int64", "float64") and column.name != "seed"]
_TAGS = ("outcome", "phase", "reason", "evidence", "provenance_hash", "session_id", "framework_version")


def export(journals: Journals, labels: dict[str, str], uri: str) -> int:
    """Log the trials that are not there yet into the tracking store at `uri`; returns their number.

    Raises:
        RequestError: MLflow is not installed, or the store cannot be used.
    """
    # MLflow reports its use to its makers unless told not to; a study's name is nobody else's business
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    try:
        from mlflow import MlflowClient
        from mlflow.exceptions import MlflowException
    except ImportError:
        raise RequestError(
            "--mlflow needs MLflow: pip install 'accelerator-study[mlflow]' (or pip install mlflow)."
        ) from None
    try:
        client = MlflowClient(tracking_uri=uri)
        return sum(_log_study(client, journals, labels, str(study)) for study in journals.trials["study"].unique())
    except MlflowException as error:
        raise RequestError(f"--mlflow {uri}: {error}") from error


def _log_study(client: Any, journals: Journals, labels: dict[str, str], study: str) -> int:
    found = client.get_experiment_by_name(study)
    experiment = found.experiment_id if found else client.create_experiment(study)
    present = _present(client, experiment)
    trials = records(journals.trials[journals.trials["study"] == study])
    new = [trial for trial in trials if _identity(trial) not in present]
    for trial in new:
        _log_trial(client, experiment, trial, journals.conditions[trial["condition_id"]], labels)
    return len(new)


def _present(client: Any, experiment: str) -> set[str]:
    """The identities of all runs of an experiment."""
    found: set[str] = set()
    token = None
    while True:
        page = client.search_runs([experiment], max_results=1000, page_token=token)
        found.update(run.data.tags[KEY] for run in page if KEY in run.data.tags)
        token = page.token
        if not token:
            return found


def _log_trial(
    client: Any, experiment: str, trial: dict[str, Any], settings: dict[str, Any], labels: dict[str, str]
) -> None:
    from mlflow.entities import Metric, Param

    began = _milliseconds(trial["_started"])
    tags = {name: str(trial[name]) for name in _TAGS if trial[name] == trial[name] and trial[name]}
    name = f"{labels[trial['condition_id']]} · block {trial['block']}"
    run = client.create_run(experiment, start_time=began, run_name=name, tags={**tags, KEY: _identity(trial)})
    numbers = {key: trial[key] for key in _METRICS if _is_number(trial[key])}
    metrics = [Metric(key, float(value), began, 0) for key, value in numbers.items()]
    params = [Param(key, str(value)[:MOST_PARAM_LENGTH]) for key, value in settings.items() if value is not None]
    client.log_batch(run.info.run_id, metrics=metrics[:MOST_METRICS])
    for first in range(0, len(params), MOST_PARAMS):
        client.log_batch(run.info.run_id, params=params[first : first + MOST_PARAMS])
    seconds = trial["elapsed_seconds"] if _is_number(trial["elapsed_seconds"]) else 0.0
    status = "FINISHED" if trial["outcome"] == OutcomeKind.OK else "FAILED"
    client.set_terminated(run.info.run_id, status=status, end_time=began + int(seconds * 1e3))


def _identity(trial: dict[str, Any]) -> str:
    return f"{trial['trial_id']}:{trial['session_id']}:{trial['outcome']}"


def _is_number(value: Any) -> bool:
    return type(value).__name__ != "NAType" and math.isfinite(value)


def _milliseconds(started: str) -> int:
    """MLflow's clock: ms since 1970; 0 where the record does not say."""
    try:
        return int(dt.datetime.fromisoformat(started).timestamp() * 1e3)
    except ValueError:
        return 0
