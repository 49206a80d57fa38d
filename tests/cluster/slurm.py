"""A Slurm in a temporary folder: munge, MariaDB, slurmdbd, slurmctld here, a slurmd on each node; ended with the test.

Its nodes are this machine, or emulated ones (namespaces.py). Needs root and Debian's packages munge, slurm-wlm,
slurmdbd and mariadb-server. Without accounting (slurmdbd) a job that was killed is never noticed by submitit, which
asks sacct. Memory is a resource that is given out (CR_Core_Memory): what a job asks for decides whether it starts.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil
from daemons import Daemons, listens, tool, until
from namespaces import HEAD, Node, joined

DATABASE_PORT = 33306
SLURMD_PORT = 6818
#: So long a node may be silent before slurmctld counts it as down.
SILENT_SECONDS = 15
#: What a node has to give: some less than there is, for what runs beside jobs.
MEMORY_MIB = psutil.virtual_memory().total // 2**20 - 512
PROGRAMS = ("munged", "mariadbd", "mariadb-install-db", "slurmdbd", "slurmctld", "slurmd", "sbatch", "sacct")


@dataclass
class Slurm:
    """One that runs: the variables that its commands need, and its emulated nodes (none: this machine alone)."""

    folder: Path
    daemons: Daemons
    variables: dict[str, str]
    nodes: Sequence[Node]

    def says(self, *command: str) -> str:
        """What one of Slurm's commands prints."""
        return self.daemons.says(*command)

    def running_jobs(self) -> dict[str, str]:
        """The jobs at work → their nodes."""
        lines = self.says("squeue", "--noheader", "--array", "--states=RUNNING", "--format=%i %N").splitlines()
        return dict(line.split() for line in lines)

    def start(self, node: Node, *before: str) -> None:
        """Start a node's own munged and slurmd, the latter by the command `before`; returns once jobs can go there."""
        _start_munged(self.daemons, self.folder, node)
        self.daemons.start(*node.command(*before, str(tool("slurmd")), "-D", "-N", node.name), log=node.name)
        until(lambda: listens(SLURMD_PORT, node.address), f"slurmd of {node.name}")
        self.until_idle(node.name)

    def restart(self, node: Node, *before: str) -> None:
        """The node after a reboot: nothing of what ran there is left."""
        node.die()
        node.boot()
        self.start(node, *before)

    def kill_slurmd(self, node: Node) -> None:
        """Slurm's own process is killed there; the jobs that it has started go on."""
        pid = self.says(*node.command("cat", str(self.folder / "spool" / "slurmd.pid"))).strip()
        self.says(*node.command("kill", "-KILL", pid))

    def until_idle(self, name: str) -> None:
        """Wait until jobs can go to this node."""
        state = ("sinfo", "--noheader", f"--nodes={name}", "--format=%t")
        until(lambda: self.says(*state).strip() == "idle", f"slurmd of {name}")


def missing() -> list[str]:
    """The programs that this machine lacks for it."""
    return [name for name in PROGRAMS if tool(name) is None]


@contextlib.contextmanager
def slurm(nodes: int) -> Iterator[Slurm]:
    """A running Slurm of one node, which is this machine, or of so many emulated ones."""
    with tempfile.TemporaryDirectory(prefix="study-slurm-", dir="/var/tmp") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        for own in ("state", "spool", "munge"):
            (folder / own).mkdir()
        emulated = [_node(folder, number) for number in range(1, nodes + 1)] if nodes > 1 else []
        if emulated:
            stack.enter_context(joined(emulated))
        _write_configuration(folder, emulated)
        variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        running = Slurm(folder, stack.enter_context(Daemons(folder, variables)), variables, emulated)
        _start_all(running)
        yield running


def _node(folder: Path, number: int) -> Node:
    own = [folder / "spool", folder / "munge"]
    return Node(f"node{number}", f"10.77.0.{10 + number}", folder / f"node{number}", own)


def _start_all(running: Slurm) -> None:
    folder, daemons = running.folder, running.daemons
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o600)
    _start_munged(daemons, folder)
    until((folder / "munge" / "socket").exists, "munged")
    _start_accounting(folder, daemons)
    daemons.start("slurmctld", "-D", "-i")
    until(lambda: daemons.answers("scontrol", "ping"), "slurmctld")
    for node in running.nodes:
        running.start(node)
    if not running.nodes:
        daemons.start("slurmd", "-D", "-N", "localhost")
        running.until_idle("localhost")


def _start_munged(daemons: Daemons, folder: Path, node: Node | None = None) -> None:
    """Each node has one of its own, which would take a message that another has read for a replay."""
    own = folder / "munge"
    files = [f"--{one}-file={own}/{one}" for one in ("pid", "seed", "log")]
    given = ["--foreground", "--force", f"--key-file={folder}/munge.key", f"--socket={own}/socket", *files]
    command = [str(tool("munged")), *given]
    daemons.start(*(command if node is None else node.command(*command)), log="munged")


def _start_accounting(folder: Path, daemons: Daemons) -> None:
    data = folder / "database"
    subprocess.run([str(tool("mariadb-install-db")), f"--datadir={data}", "--user=root", "--skip-test-db"],
                   check=True, capture_output=True)  # fmt: skip
    daemons.start("mariadbd", "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={folder}/database.socket",
                  f"--port={DATABASE_PORT}", "--bind-address=127.0.0.1", "--skip-grant-tables")  # fmt: skip
    until(lambda: listens(DATABASE_PORT), "mariadbd")
    daemons.start("slurmdbd", "-D")
    until(lambda: daemons.answers("sacctmgr", "--noheader", "show", "cluster"), "slurmdbd")
    daemons.answers("sacctmgr", "--immediate", "add", "cluster", "one")


def _write_configuration(folder: Path, nodes: Sequence[Node]) -> None:
    # a job that is put back waits until credentials made for it are no longer valid: 120 s by default
    authentication = f"socket={folder}/munge/socket,cred_expire=10"
    address = HEAD if nodes else "127.0.0.1"
    hosts = [(node.name, node.address) for node in nodes] or [("localhost", "127.0.0.1")]
    size = f"CPUs={os.cpu_count()} RealMemory={MEMORY_MIB} State=UNKNOWN"
    lines = "\n".join(f"NodeName={name} NodeHostname={name} NodeAddr={where} {size}" for name, where in hosts)
    (folder / "slurm.conf").write_text(
        f"""ClusterName=one
SlurmctldHost={socket.gethostname()}({address})
SlurmUser=root
AuthType=auth/munge
AuthInfo={authentication}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
MpiDefault=none
ReturnToService=2
SlurmdTimeout={SILENT_SECONDS}
SlurmdParameters=config_overrides
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/spool/slurmd.pid
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePass={folder}/munge/socket
JobAcctGatherType=jobacct_gather/none
{lines}
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
    )
    database = folder / "slurmdbd.conf"
    database.write_text(
        f"""AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket
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
