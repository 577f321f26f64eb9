"""The network between the nodes of a test: each address that they tell each other leads here.

The dialling node is known by the process that owns the other end of the connection, so a pair of
nodes can be cut from each other, in both directions or in one, without any privilege. What is cut
is not closed: bytes wait, as they do for a network that is gone, and come when it is back. A
connection that is begun meanwhile is accepted and silent, where a real network would not answer at
all.
"""

import asyncio
import contextlib
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

_CHUNK: Final = 256 << 10
_HOST: Final = "127.0.0.1"


class Links:
    """A thread that carries bytes between nodes, until :meth:`close`."""

    def __init__(self, pids: Callable[[], Mapping[int, int]]) -> None:
        """``pids`` tells the process of each node that runs now."""
        self._pids = pids
        self._loop = asyncio.new_event_loop()
        self._gates: dict[tuple[int, int], asyncio.Event] = {}
        self._cut: set[tuple[int, int]] = set()
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._run, name="ottla-links", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def open(self, node_id: int, port: int) -> int:
        """A port that leads to a port of a node."""
        listener = socket.create_server((_HOST, 0), backlog=128)

        async def serve() -> None:
            async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                # Swallowed only when everything ends: asyncio would make a fuss of it.
                with contextlib.suppress(asyncio.CancelledError):
                    await self._accept(node_id, port, reader, writer)

            self._servers.append(await asyncio.start_server(accept, sock=listener, limit=_CHUNK))

        asyncio.run_coroutine_threadsafe(serve(), self._loop).result()
        found: int = listener.getsockname()[1]
        return found

    def cut(self, source: int, target: int) -> None:
        """Nothing that the one sends reaches the other, until :meth:`heal`."""
        self._set(lambda: self._close_gate(source, target))

    def heal(self) -> None:
        """Everything flows again, what has waited first."""
        self._set(self._open_gates)

    def _set(self, change: Callable[[], None]) -> None:
        async def run() -> None:
            change()

        asyncio.run_coroutine_threadsafe(run(), self._loop).result()

    def _close_gate(self, source: int, target: int) -> None:
        self._cut.add((source, target))
        self._gate(source, target).clear()

    def _open_gates(self) -> None:
        self._cut.clear()
        for gate in self._gates.values():
            gate.set()

    def _gate(self, source: int, target: int) -> asyncio.Event:
        gate = self._gates.get((source, target))
        if gate is None:
            gate = self._gates[source, target] = asyncio.Event()
            gate.set()
        return gate

    async def _accept(
        self,
        node_id: int,
        target_port: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        port, far_port = (writer.get_extra_info(end)[1] for end in ("peername", "sockname"))
        source = owner_of(port, far_port, self._pids())
        there, back = self._gate(source, node_id), self._gate(node_id, source)
        try:
            await there.wait()
            far_reader, far_writer = await asyncio.open_connection(_HOST, target_port, limit=_CHUNK)
        except OSError:
            writer.transport.abort()
            return
        except asyncio.CancelledError:
            writer.transport.abort()
            raise
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_pump(reader, far_writer, there))
                group.create_task(_pump(far_reader, writer, back))
        except* (OSError, EOFError):
            pass
        finally:
            for each in (writer, far_writer):
                each.transport.abort()

    def close(self) -> None:
        async def end() -> None:
            for server in self._servers:
                server.close()
            await asyncio.sleep(0)  # a link just accepted begins, and is ended with the rest
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _pump(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, gate: asyncio.Event
) -> None:
    """Carry bytes while the gate is open; EOFError at the end, so that the other way ends too."""
    while True:
        data = await reader.read(_CHUNK)
        if not data:
            raise EOFError
        await gate.wait()
        writer.write(data)
        await writer.drain()


def owner_of(port: int, far_port: int, pids: Mapping[int, int]) -> int:
    """The node whose process connects its port to the far one, on loopback; -1 when none does."""
    inode = _inode(port, far_port)
    if inode is not None:
        wanted = f"socket:[{inode}]"
        for node_id, pid in pids.items():
            if wanted in _open_files(pid):
                return node_id
    return -1


def _open_files(pid: int) -> set[str]:
    found = set()
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                found.add(os.readlink(entry.path))  # noqa: PTH115
    return found


def _inode(port: int, far_port: int) -> str | None:
    """Linux lists its connections with the number of the socket, IPv4 and mapped ones."""
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with contextlib.suppress(OSError):
            for line in Path(table).read_text("ascii").splitlines()[1:]:
                words = line.split()
                ends = tuple(int(word.rpartition(":")[2], 16) for word in words[1:3])
                if ends == (port, far_port):
                    return words[9]
    return None
