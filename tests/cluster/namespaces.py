"""Two nodes on one machine: each has a network, a host name, processes and a /tmp of its own (Linux namespaces).

They are joined by a bridge, at whose address this machine is the third. All else of the file system is shared, as on a
cluster. Cores and memory are this machine's: two nodes have twice what there is. Needs root and iproute2.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from daemons import tool, until

BRIDGE, HEAD = "study-bridge", "10.77.0.1"
CHECKOUT = Path(__file__).parent.parent.parent
PROGRAMS = ("ip", "unshare", "nsenter", "mount")


@dataclass
class Node:
    """One emulated node. `own` are folders of the shared file system that are its own, empty, beside /tmp."""

    name: str
    address: str
    folder: Path
    own: Sequence[Path] = ()
    _holder: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def boot(self) -> None:
        """Make its processes' first one, which keeps the namespaces and collects orphans."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "hosts").write_text(f"127.0.0.1 localhost\n{self.address} {self.name}\n")
        script = "\n".join(["set -e", "ip link set lo up", f"hostname {self.name}", *self._mounts(), "touch /tmp/up"])
        kept = ["unshare", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c"]
        command = ["nsenter", f"--net=/run/netns/{self.name}", *kept, f"{script}\nwhile sleep 1; do :; done"]
        with (self.folder / "node.log").open("ab") as log:
            self._holder = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        until(self._is_up, f"{self.name} (see {self.folder / 'node.log'})")

    def command(self, *command: str, folder: Path | None = None) -> list[str]:
        """The command line that runs a command on this node, in a folder of the shared file system."""
        spaces = ("--net", "--uts", "--mount", "--pid")
        return ["nsenter", f"--target={self._first_process()}", *spaces, f"--wdns={folder or self.folder}", *command]

    def die(self) -> None:
        """Every process of the node is killed at once, as when its power fails."""
        if self._holder is not None:
            self._holder.kill()
            self._holder.wait()
            self._holder = None

    def _mounts(self) -> list[str]:
        """Shell lines for a /tmp of its own, through which the interpreter and this checkout can still be seen."""
        stage = self.folder / "tmp"
        used = {CHECKOUT, *(Path(one).resolve() for one in (sys.prefix, sys.base_prefix, *filter(None, sys.path)))}
        inner = {path for path in used if Path("/tmp") in path.parents and path.is_dir()}
        seen = [path for path in inner if not inner & {*path.parents}]
        lines = [f"mkdir -p {stage}", f"mount -t tmpfs tmpfs {stage}", f"chmod 1777 {stage}"]
        for path in seen:
            inside = stage / path.relative_to("/tmp")
            lines += [f"mkdir -p {inside}", f"mount --rbind {path} {inside}"]
        lines += [f"mount --move {stage} /tmp", f"mount --bind {self.folder / 'hosts'} /etc/hosts"]
        return [*lines, *(f"mount -t tmpfs tmpfs {path}" for path in self.own)]

    def _first_process(self) -> int:
        assert self._holder is not None, f"{self.name} is not up"
        children = Path(f"/proc/{self._holder.pid}/task/{self._holder.pid}/children").read_text().split()
        return int(children[0])

    def _is_up(self) -> bool:
        assert self._holder is not None
        if self._holder.poll() is not None:
            raise RuntimeError(f"{self.name} did not start: {(self.folder / 'node.log').read_text().strip()}")
        try:
            return Path(f"/proc/{self._first_process()}/root/tmp/up").exists()
        except (OSError, IndexError):
            return False


def impossible() -> str | None:
    """Why there can be no emulated nodes here, or None where there can."""
    if os.geteuid() != 0:
        return "only root can make namespaces"
    absent = [name for name in PROGRAMS if tool(name) is None]
    if absent:
        return f"{', '.join(absent)} not installed"
    spaces = ["--net", "--uts", "--mount", "--pid", "--fork", "--mount-proc"]
    command = ["unshare", *spaces, "ip", "link", "add", "name", "tried", "type", "veth"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"namespaces are refused here ({tried.stderr.strip()})"


@contextlib.contextmanager
def joined(nodes: Sequence[Node]) -> Iterator[None]:
    """Up and joined as long as this lasts; afterwards neither processes nor networks are left."""
    try:
        _clear(nodes)
        _ip("link", "add", BRIDGE, "type", "bridge")
        _ip("address", "add", f"{HEAD}/24", "dev", BRIDGE)
        _ip("link", "set", BRIDGE, "up")
        for node in nodes:
            _connect(node)
            node.boot()
        yield
    finally:
        for node in nodes:
            node.die()
        _clear(nodes)


def _connect(node: Node) -> None:
    ours = f"v-{node.name}"
    _ip("netns", "add", node.name)
    _ip("link", "add", ours, "type", "veth", "peer", "name", "eth0", "netns", node.name)
    _ip("link", "set", ours, "master", BRIDGE, "up")
    _ip("-n", node.name, "address", "add", f"{node.address}/24", "dev", "eth0")
    _ip("-n", node.name, "link", "set", "eth0", "up")


def _clear(nodes: Sequence[Node]) -> None:
    """Take away what is there, of an earlier run that was killed too."""
    present = subprocess.check_output(["ip", "netns", "list"], text=True).split()
    for link in (*(f"v-{node.name}" for node in nodes), BRIDGE):
        if Path("/sys/class/net", link).exists():
            _ip("link", "delete", link)
    for node in nodes:
        if node.name in present:
            _ip("netns", "delete", node.name)


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
