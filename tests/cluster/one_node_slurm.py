"""A Slurm of one node in a temporary folder: munge, MariaDB, slurmdbd, slurmctld and slurmd, started and stopped here.

Needs root and Debian's packages munge, slurm-wlm, slurmdbd and mariadb-server. Without accounting (slurmdbd) a job that
was killed is never noticed by submitit, which asks sacct.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

DATABASE_PORT = 33306
START_SECONDS = 60.0
DAEMONS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacct")


def missing() -> list[str]:
    """The programs that this machine lacks for it."""
    return [name for name in DAEMONS if _tool(name) is None]


@contextlib.contextmanager
def one_node_slurm() -> Iterator[dict[str, str]]:
    """A running Slurm; gives the variables that its commands need."""
    with tempfile.TemporaryDirectory(prefix="one-node-slurm-", dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        _write_configuration(folder)
        running: list[subprocess.Popen[bytes]] = []
        try:
            _start_all(folder, {**os.environ, **variables}, running)
            yield variables
        finally:
            for process in reversed(running):
                process.send_signal(signal.SIGTERM)
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def _start_all(folder: Path, environment: dict[str, str], running: list[subprocess.Popen[bytes]]) -> None:
    def start(*command: str) -> None:
        with (folder / f"{Path(command[0]).name}.log").open("wb") as log:
            program = [str(_tool(command[0])), *command[1:]]
            running.append(subprocess.Popen(program, env=environment, stdout=log, stderr=log, start_new_session=True))

    def answers(*command: str) -> bool:
        return subprocess.run(command, env=environment, capture_output=True, check=False).returncode == 0

    key, munge = folder / "munge.key", folder / "munge.socket"
    key.write_bytes(os.urandom(128))
    key.chmod(0o600)
    files = [f"--{one}-file={folder}/munge.{one}" for one in ("pid", "seed", "log")]
    start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={munge}", *files)
    _until(munge.exists, "munged")
    data = folder / "database"
    subprocess.run([str(_tool("mariadb-install-db")), f"--datadir={data}", "--user=root", "--skip-test-db"],
                   check=True, capture_output=True)  # fmt: skip
    start("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={folder}/database.socket",
          f"--port={DATABASE_PORT}", "--bind-address=127.0.0.1", "--skip-grant-tables")  # fmt: skip
    _until(lambda: _listens(DATABASE_PORT), "mariadbd")
    start("slurmdbd", "-D")
    _until(lambda: answers("sacctmgr", "--noheader", "show", "cluster"), "slurmdbd")
    answers("sacctmgr", "--immediate", "add", "cluster", "one")
    start("slurmctld", "-D", "-i")
    _until(lambda: answers("scontrol", "ping"), "slurmctld")
    start("slurmd", "-D", "-N", "localhost")
    _until(lambda: b"idle" in subprocess.check_output(["sinfo", "--noheader"], env=environment), "slurmd")


def _write_configuration(folder: Path) -> None:
    memory = psutil.virtual_memory().total // 2**20 - 512
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "slurm.conf").write_text(
        f"""ClusterName=one
SlurmctldHost={socket.gethostname()}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={folder}/munge.socket
JobAcctGatherType=jobacct_gather/none
NodeName=localhost NodeAddr=127.0.0.1 CPUs={os.cpu_count()} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""
    )
    database = folder / "slurmdbd.conf"
    database.write_text(
        f"""AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
DbdHost=localhost
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={DATABASE_PORT}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
PidFile={folder}/slurmdbd.pid
"""
    )
    database.chmod(0o600)


def _tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/sbin")


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


def _until(ready: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not start within {START_SECONDS:.0f} s")
        time.sleep(0.3)
