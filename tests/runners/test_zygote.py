"""The zygote's promise, with the real frameworks: importing makes no backend, and with one there is no fork."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from runners.compiled.targets import INTERPRETER_VARIABLE
from study import processes

PROGRAM = """
import sys
from runners import frameworks
from runners.zygote import BackendExists, refuse_backend
runner = frameworks.load(sys.argv[1])
refuse_backend(runner)
if sys.argv[1] == "jax":
    import jax
    jax.devices()
else:
    import tensorflow as tf
    tf.constant(0.0)
try:
    refuse_backend(runner)
except BackendExists as error:
    print(error)
"""


@pytest.mark.parametrize("framework", ["jax", "tf"])
def test_a_process_with_a_backend_forks_no_more(framework: str) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", PROGRAM, framework],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert f"holds a backend of {framework}: a fork of it would hang" in finished.stdout


@contextmanager
def spare(framework: str, **variables: str) -> Iterator[psutil.Process]:
    """The spare of a zygote that was just started; the zygote ends with its connection."""
    processes.become_subreaper()
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "2", **variables}
    command = [sys.executable, "-P", "-m", "runners.zygote", framework, str(its.fileno())]
    with subprocess.Popen(command, env=environment, pass_fds=[its.fileno()]) as zygote, ours:
        its.close()
        yield psutil.Process(json.loads(ours.recv(4096))["ready"])
        ours.close()
        assert zygote.wait(20) == 0


def test_where_plans_are_asked_for_a_compiler_without_jax_in_it_is_started_ahead() -> None:
    with spare("tf", **{INTERPRETER_VARIABLE: sys.executable}) as waiting:
        deadline = time.monotonic() + 20
        # a child that has not executed its program yet shows its parent's
        while [one.cmdline()[-2:] for one in waiting.children()] != [["-m", "runners.compiled"]]:
            assert time.monotonic() < deadline, waiting.children()
            time.sleep(0.01)
        (compiler,) = waiting.children()
    # nothing was asked: it ends with the spare, and that with the zygote
    _, alive = psutil.wait_procs([waiting, compiler], timeout=20)
    assert not alive


def test_where_none_are_asked_for_no_compiler_is_started() -> None:
    with spare("tf") as waiting:
        # the spare has become ours, and waits for its request: what it starts ahead has been started
        while waiting.ppid() != os.getpid() or waiting.status() != psutil.STATUS_SLEEPING:
            time.sleep(0.01)
        assert waiting.children() == []
