"""What a fault needs of the machine, and gives back: small disks, and networks of their own.

Both need root. Without it :class:`NotPossible` says so, and the fault is skipped.
"""

import contextlib
import errno
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

DISK_MIB: Final = 64
BALLAST: Final = "ballast"
_CHUNK: Final = 64 << 10
_NETWORK: Final = "10.213.7"


class NotPossible(Exception):
    """This machine, or this user, cannot have that fault."""


def _run(*words: str) -> None:
    """Run a program of the system as root."""
    if os.geteuid() != 0:
        raise NotPossible(f"{words[0]} needs root")
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise NotPossible(f"there is no {words[0]} here") from error
    if done.returncode:
        raise NotPossible(f"{' '.join(words)}: {done.stderr.strip()}")


@contextlib.contextmanager
def small_disks(nodes: int) -> Iterator[Path]:
    """A directory for a cluster in which the data of each node is on a disk of its own."""
    directory = Path(tempfile.mkdtemp(prefix="ottla-disks-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, directory, ignore_errors=True)
        for node_id in range(1, nodes + 1):
            data = directory / f"node-{node_id}" / "data"
            data.mkdir(parents=True)
            _run("mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "ottla-chaos", str(data))
            stack.callback(_run, "umount", "--lazy", str(data))
        yield directory


def fill(disk: Path) -> None:
    """Leave no byte free."""
    assert disk.is_mount(), f"{disk} is no disk of its own"
    with (disk / BALLAST).open("ab", buffering=0) as file:
        for chunk in (_CHUNK, 1):
            with contextlib.suppress(_Full):
                while True:
                    _write(file.fileno(), chunk)


class _Full(Exception):
    pass


def _write(file: int, size: int) -> None:
    try:
        os.write(file, bytes(size))
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        raise _Full from error


def free(disk: Path) -> None:
    """Give back what :func:`fill` has taken."""
    (disk / BALLAST).unlink(missing_ok=True)


class Namespaces:
    """Each node in a network namespace of its own, on one bridge with this machine.

    Nothing of it leads out of the machine. What is cut is cut from everybody: no answer comes, no
    connection is refused.
    """

    def __init__(self, nodes: int) -> None:
        self._name = f"ottla{os.getpid() % 100_000}"
        self.hosts = {node_id: f"{_NETWORK}.{node_id}" for node_id in range(1, nodes + 1)}
        self.prefixes = {
            node_id: ("ip", "netns", "exec", self._namespace(node_id)) for node_id in self.hosts
        }

    def _namespace(self, node_id: int) -> str:
        return f"{self._name}-{node_id}"

    def _port(self, node_id: int) -> str:
        return f"{self._name}p{node_id}"

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            _run("ip", "link", "add", self._name, "type", "bridge")
            stack.callback(_run, "ip", "link", "del", self._name)
            _run("ip", "address", "add", f"{_NETWORK}.254/24", "dev", self._name)
            _run("ip", "link", "set", self._name, "up")
            for node_id, host in self.hosts.items():
                namespace, port = self._namespace(node_id), self._port(node_id)
                _run("ip", "netns", "add", namespace)
                stack.callback(_run, "ip", "netns", "del", namespace)
                inside = ("ip", "-n", namespace)
                _run("ip", "link", "add", port, "type", "veth", "peer", "eth0", "netns", namespace)
                stack.callback(_run, "ip", "link", "del", port)
                _run("ip", "link", "set", port, "master", self._name, "up")
                _run(*inside, "address", "add", f"{host}/24", "dev", "eth0")
                _run(*inside, "link", "set", "eth0", "up")
                _run(*inside, "link", "set", "lo", "up")
            yield

    def cut(self, node_id: int) -> None:
        _run("ip", "link", "set", self._port(node_id), "down")

    def heal(self) -> None:
        for node_id in self.hosts:
            _run("ip", "link", "set", self._port(node_id), "up")
