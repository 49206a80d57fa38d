"""A Hydra launcher for tests: every job in a process of its own, all at once; a killed one is an error, as with others.

It is found by Hydra where its folder is on PYTHONPATH, as hydra/launcher=processes.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus
from hydra.plugins.launcher import Launcher

WORK = """
import sys
from omegaconf import OmegaConf
from study.jobs import job
print(job(OmegaConf.create({"study": {"batch": sys.argv[1]}})), end="")
"""


class ProcessesLauncher(Launcher):
    """Runs jobs without Hydra's own composition in the worker: the batch's file is all that a job is given."""

    def setup(self, **_: Any) -> None:
        """Nothing to keep."""

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:  # noqa: ARG002
        """Start all, wait for all, then raise for the first that was killed."""
        paths = [overrides[0].partition("=")[2].strip("'") for overrides in job_overrides]
        pipe = subprocess.PIPE
        started = [subprocess.Popen([sys.executable, "-c", WORK, path], stdout=pipe, text=True) for path in paths]
        said = [process.communicate()[0] for process in started]
        for process in started:
            if process.returncode:
                raise RuntimeError(f"a job ended with status {process.returncode}")
        return [_returned(text) for text in said]


def _returned(text: str) -> JobReturn:
    one = JobReturn()
    one.status, one.return_value = JobStatus.COMPLETED, text
    return one


ConfigStore.instance().store(
    group="hydra/launcher",
    name="processes",
    node={"_target_": "hydra_plugins.processes_launcher.ProcessesLauncher"},
    provider="tests",
)
