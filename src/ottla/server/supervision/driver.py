"""Carries out what the supervisor decides: processes, signals, time, the log and the report."""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, Any, Final

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import parse_http_listeners
from ottla.network.http_server import HttpServer
from ottla.network.sockets import LoopNetwork
from ottla.observability.logging import logger
from ottla.server.environment import LoopScheduler
from ottla.server.supervision.child_process import ChildProcess
from ottla.server.supervision.link import ALIVE, SYNC
from ottla.server.supervision.machine_pages import MachinePages, Shown
from ottla.server.supervision.state_file import StateFile
from ottla.server.supervision.supervisor import (
    Act,
    AskSync,
    Kill,
    Leave,
    Press,
    ProcessState,
    Say,
    Spawn,
    Supervisor,
)

log = logger(__name__)

TICK_SECONDS: Final = 0.5
"""How long an end or a date may go unnoticed at most; a signal tells of most ends."""
ANSWER_SECONDS: Final = 10.0
"""For all processes to say whether the cluster is in sync."""
ALIVE_SECONDS: Final = 5.0
"""Between two questions whether a process that serves is still there for anybody."""
SILENT_SECONDS: Final = 15.0
"""One that has not answered for so long hangs, though it lives: its disk, or its machine."""
SILENT: Final = "silent"
"""What a report says of such a one."""
CANNOT_RUN: Final = 127
"""The exit code of a process that could not be started at all, as shells have it."""


class Driver:
    """The processes of one machine from the first start to the last end."""

    def __init__(
        self,
        configs: Sequence[BrokerConfig],
        command: Callable[[int], Sequence[str]],
        environment: Mapping[str, str],
        state_file: StateFile,
        *,
        output: IO[bytes] | None = None,
        as_json: bool = False,
        ready: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        """``command`` starts the process of a number; ``ready`` gets a report once all serve."""
        self._configs = dict(enumerate(configs, 1))
        self._command = command
        self._environment = environment
        self._file = state_file
        self._output = sys.stderr.buffer if output is None else output
        self._as_json = as_json
        self._ready = ready
        self._loop = asyncio.new_event_loop()
        self._core = Supervisor([config.node_id for config in configs])
        self._running: dict[int, ChildProcess] = {}
        self._ports: dict[int, dict[str, int]] = {}
        self._question: tuple[int, set[int], float] | None = None
        """The number of the last question, those that have not answered, and until when."""
        self._alive_at: dict[int, float] = {}
        """When each process that serves was last heard of."""
        self._ask_alive_at = 0.0
        self._silent: set[int] = set()
        self._began_ms = _wall_ms()
        self._since: dict[int, tuple[float, int]] = {}
        """When each came into its state, by our clock and by that of the wall."""
        self._exit_code = 1
        self._scheduler = LoopScheduler(self._loop)
        self._http: HttpServer | None = None
        self.http_ports: list[int] = []

    def run(self) -> int:
        """Until all have ended; the exit code."""
        loop = self._loop
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: self._do(self._core.stop(self._now())))
        loop.add_signal_handler(signal.SIGHUP, lambda: self._do(self._core.restart(self._now())))
        loop.add_signal_handler(signal.SIGCHLD, self._look)
        self._show_status()
        loop.call_soon(lambda: self._do(self._core.begin(self._now())))
        loop.call_later(TICK_SECONDS, self._tick)
        try:
            loop.run_forever()
        finally:
            for child in self._running.values():
                child.signal(signal.SIGKILL)
            if self._http is not None:
                self._http.close()
            self._scheduler.close()
            self._file.close()
            loop.close()
        return self._exit_code

    def _now(self) -> float:
        return self._loop.time()

    # What happens

    def _tick(self) -> None:
        self._loop.call_later(TICK_SECONDS, self._tick)
        self._look()
        now = self._now()
        self._look_who_is_silent(now)
        if self._question is not None and now >= self._question[2]:
            silent = ", ".join(str(self._configs[n].node_id) for n in sorted(self._question[1]))
            self._answered(f"node {silent} does not answer")
        self._do(self._core.tick(now))

    def _look_who_is_silent(self, now: float) -> None:
        """Told once; nobody but an operator can say whether it is better to wait or to kill."""
        if now >= self._ask_alive_at:
            self._ask_alive_at = now + ALIVE_SECONDS
            for number in self._alive_at:
                self._running[number].ask(0, ALIVE)
        silent = {
            number
            for number, heard in self._alive_at.items()
            if now - heard >= SILENT_SECONDS
            and self._core.children[number].state is ProcessState.SERVING
        }
        for number in silent - self._silent:
            node_id = self._configs[number].node_id
            log.warning("a process lives and does not answer", node=node_id)
        self._silent = silent

    def _look(self) -> None:
        """Which have ended."""
        for number, child in list(self._running.items()):
            code = child.exit_code()
            if code is not None:
                child.close()
                del self._running[number]
                self._ports.pop(number, None)
                self._alive_at.pop(number, None)
                self._do(self._core.ended(number, code, self._now()))

    def _heard(self, number: int, answer: dict[str, Any]) -> None:
        if number in self._running:
            self._alive_at[number] = self._now()
        if answer.get("event") == "serving":
            self._ports[number] = answer["ports"]
            self._do(self._core.serves(number, self._now()))
            if self._ready is not None and self._core.all_serve:
                ready, self._ready = self._ready, None
                ready(self.report())
        elif self._question is not None and answer.get("id") == self._question[0]:
            unrest = answer.get("error") or answer.get("unrest")
            self._question[1].discard(number)
            if unrest is not None:
                self._answered(f"node {self._configs[number].node_id}: {unrest}")
            elif not self._question[1]:
                self._answered(None)

    def _answered(self, unrest: str | None) -> None:
        assert self._question is not None
        question, self._question = self._question[0], None
        self._do(self._core.answered(question, unrest, self._now()))

    # What is done

    def _do(self, acts: list[Act]) -> None:
        for act in acts:
            match act:
                case Spawn(number):
                    self._spawn(number)
                case Press(number):
                    self._signal(number, signal.SIGTERM)
                case Kill(number):
                    self._signal(number, signal.SIGKILL)
                case AskSync(question):
                    self._ask(question)
                case Say(text, node_id, is_bad):
                    fields = {} if node_id is None else {"node": node_id}
                    (log.warning if is_bad else log.info)(text, **fields)
                case Leave(code):
                    self._exit_code = code
                    self._loop.stop()
        self._file.write(self.report())

    def _spawn(self, number: int) -> None:
        try:
            self._running[number] = ChildProcess(
                self._command(number),
                self._environment,
                self._loop,
                on_line=lambda line: self._show(number, line),
                on_answer=lambda answer: self._heard(number, answer),
            )
        except OSError as error:
            log.error("a process cannot be started", number=number, reason=str(error))
            self._loop.call_soon(
                lambda: self._do(self._core.ended(number, CANNOT_RUN, self._now()))
            )

    def _signal(self, number: int, which: signal.Signals) -> None:
        child = self._running.get(number)
        if child is not None:
            child.signal(which)

    def _ask(self, question: int) -> None:
        self._question = (question, set(self._running), self._now() + ANSWER_SECONDS)
        for child in self._running.values():
            child.ask(question, SYNC)

    # What is shown

    def _show(self, number: int, line: bytes) -> None:
        """A line of a process, with the node that wrote it.

        Where nobody takes our lines any more, the processes are watched all the same.
        """
        node_id = self._configs[number].node_id
        if not self._as_json:
            shown = b"node-%d | %s\n" % (node_id, line)
        elif line.startswith(b'{"'):
            shown = b'{"node_id": %d, %s\n' % (node_id, line[1:])
        else:
            text = line.decode("utf-8", errors="replace")
            shown = json.dumps({"node_id": node_id, "message": text}).encode("utf-8") + b"\n"
        with suppress(OSError):
            self._output.write(shown)
            self._output.flush()

    def _show_status(self) -> None:
        """All processes in one place; one that cannot be shown is served all the same."""
        listeners = parse_http_listeners(self._configs[1].ottla_processes_http_listeners)
        if not listeners:
            return
        pages = MachinePages(self._scheduler, self.report, self._shown)
        network = LoopNetwork(self._loop, self._scheduler.turn)
        http = self._http = HttpServer(network, self._scheduler, pages.answer)
        for listener in listeners:
            try:
                self.http_ports.append(http.listen(listener.host, listener.port))
            except OSError as error:
                log.error("metrics and health are not shown", listener=listener, reason=str(error))

    def _shown(self) -> list[Shown]:
        return [
            Shown(
                child.node_id,
                SILENT if number in self._silent else child.state.value,
                max(0, child.starts - 1),
                self._ports.get(number, {}).get("HTTP"),
            )
            for number, child in self._core.children.items()
        ]

    def report(self) -> dict[str, Any]:
        """What the state file says."""
        core = self._core
        return {
            "pid": os.getpid(),
            "since_ms": self._began_ms,
            "state": "stopping" if core.is_stopping else "running",
            "http_ports": self.http_ports,
            "restart": {
                "count": core.restart_state.count,
                "state": core.restart_state.state.value,
                "reason": core.restart_state.reason,
            },
            "processes": [self._report_of(number) for number in core.children],
        }

    def _report_of(self, number: int) -> dict[str, Any]:
        child, config = self._core.children[number], self._configs[number]
        running = self._running.get(number)
        ports = self._ports.get(number, {})
        addresses = [
            str(each._replace(port=ports.get(each.name, each.port))) for each in config.listeners
        ]
        return {
            "number": number,
            "node_id": child.node_id,
            "roles": list(config.process_roles),
            "pid": None if running is None else running.pid,
            "state": SILENT if number in self._silent else child.state.value,
            "since_ms": self._since_ms(number, child.since),
            "restarts": max(0, child.starts - 1),
            "exit_code": child.exit_code,
            "listeners": addresses,
            "directories": list(config.log_dirs),
            "serves": child.state is ProcessState.SERVING and number not in self._silent,
        }

    def _since_ms(self, number: int, since: float) -> int:
        known = self._since.get(number)
        if known is None or known[0] != since:
            known = self._since[number] = since, _wall_ms()
        return known[1]


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
