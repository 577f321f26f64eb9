"""The demo itself: a cluster, the generator, the pipeline and the figures, from start to end.

Ctrl-C stops all in order: first the generator, then the brokers one by one. A second Ctrl-C ends
everything at once. All that runs as a process of its own is in a process group of its own, so that
a Ctrl-C at the terminal comes here alone.
"""

import signal
from pathlib import Path
from typing import Final, NamedTuple

from ottla.client.admin import Admin
from ottla.client.cluster import Timing
from ottla.client.system_time import SystemTime
from ottla.common.errors import ApiError
from ottla.demo import figures
from ottla.demo.figures import Figures, Rates, Stage
from ottla.demo.generator import Generator
from ottla.demo.results import Results
from ottla.demo.terminal import Display
from ottla.demo.topics import DEAD_LETTERS, ENRICHED, EVENTS, RESULTS, create_missing, end_offsets
from ottla.server.local_cluster import HOST
from ottla.server.local_nodes import POLL_SECONDS, LocalNodes, busy_ports, local_places

START_SECONDS: Final = 60.0
NODES: Final = "brokers"
"""Where the nodes' directories are, below that of the demo."""
_TIMING: Final = Timing(connect_timeout_ms=1000, request_timeout_ms=2000, call_timeout_ms=3000)


class Options(NamedTuple):
    """What the command was given."""

    directory: Path
    brokers: int = 3
    port: int | None = None
    rate: float = 500.0
    seed: int = 0
    seconds: float | None = None
    """Stop after so long; None: only when told to."""


class DemoFailed(Exception):
    """The demo cannot go on; the text says why and what to do."""


class Demo:
    """One run."""

    def __init__(self, options: Options, display: Display) -> None:
        self._options = options
        self._display = display
        self._clock = SystemTime()
        self._began = self._clock.monotonic()
        self._asked_to_stop = 0
        places = local_places(options.directory / NODES, options.brokers, options.port)
        busy = busy_ports(places)
        if busy:
            raise DemoFailed(
                f"port {busy[0]} of {HOST} is in use: is another demo or broker running? "
                "Stop it, or use --any-port"
            )
        self._nodes = LocalNodes(places)
        self._generator = Generator(
            self._nodes.bootstrap_servers, seed=options.seed, rate=options.rate
        )
        self._results = Results(self._nodes.bootstrap_servers)
        self._rates = Rates()
        self._ended: set[int] = set()

    def run(self) -> int:
        """Until Ctrl-C, or until the time is over; the exit code."""
        before = {
            number: signal.signal(number, self._signalled)
            for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            self._start()
            self._watch()
            return self._stop()
        finally:
            self._nodes.kill()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: object) -> None:
        self._asked_to_stop += 1

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def _wanted(self) -> bool:
        """Whether nobody wants it to end."""
        limit = self._options.seconds
        return not self._asked_to_stop and (limit is None or self._seconds < limit)

    # Its beginning.

    def _start(self) -> None:
        self._display.say(f"starting {self._options.brokers} brokers ...")
        self._nodes.start()
        if not self._wait_until_ready():
            return
        servers = self._nodes.bootstrap_servers
        with Admin(servers) as admin:
            create_missing(admin)
        self._generator.open()
        self._generator.start()
        self._results.start()
        self._display.say(banner(servers, self._options, self._generator.visits))

    def _wait_until_ready(self) -> bool:
        deadline = self._clock.monotonic() + START_SECONDS
        while self._wanted():
            if self._nodes.all_serve():
                return True
            for node in self._nodes.ended():
                raise DemoFailed(
                    f"node {node.node_id} ended with {node.exit_code}; "
                    f"the end of {node.output_file}:\n{node.output(1000)}"
                )
            if self._clock.monotonic() > deadline:
                raise DemoFailed(
                    f"the brokers do not serve after {START_SECONDS:.0f} s; "
                    f"see {self._options.directory / NODES}/node-*/node.log"
                )
            self._clock.wait(POLL_SECONDS)
        return False

    # Its days.

    def _watch(self) -> None:
        due = 0.0
        with Admin(self._nodes.bootstrap_servers, timing=_TIMING) as admin:
            while self._wanted():
                self._tell_ended()
                if self._seconds >= due:
                    self._show(admin)
                    due = self._seconds + self._display.every_seconds
                self._clock.wait(POLL_SECONDS)

    def _tell_ended(self) -> None:
        for node in self._nodes.ended():
            if node.node_id not in self._ended:
                self._ended.add(node.node_id)
                self._display.say(
                    f"node {node.node_id} ended with {node.exit_code}; see {node.output_file}"
                )
        if not self._nodes.alive():
            raise DemoFailed("no broker is left")

    def _show(self, admin: Admin) -> None:
        try:
            counts = end_offsets(admin, (*EVENTS, *RESULTS))
        except (ApiError, OSError) as error:
            self._display.say(f"no broker tells how far the topics are: {error}")
            return
        shown = self._figures(counts)
        if self._display.is_live:
            self._display.show(figures.screen(shown, self._display.width))
        else:
            self._display.say(figures.line(shown, EVENTS, ENRICHED, DEAD_LETTERS))

    def _figures(self, counts: dict[str, int]) -> Figures:
        rates = self._rates.sample(self._seconds, counts)
        orders, amount, by_country, newest = self._results.last_minute()
        return Figures(
            self._seconds,
            [Stage(name, count, rates[name]) for name, count in counts.items()],
            "none",
            (),
            orders,
            amount,
            by_country,
            newest,
            self._generator.trouble,
        )

    # Its end.

    def _stop(self) -> int:
        self._display.say("stopping ...")
        self._generator.stop()
        self._results.stop()
        if not self._nodes.stop(hurry=lambda: self._asked_to_stop > 1):
            return 1
        kept = self._options.directory
        self._display.say(f"stopped. Run it again to go on; remove {kept} to begin anew.")
        codes = [node.exit_code for node in self._nodes.nodes.values()]
        return 0 if all(code == 0 for code in codes) else 1


def banner(servers: str, options: Options, visits: int) -> str:
    """Where it is, and lines to copy."""
    begins = f"going on with visit {visits:,}" if visits else "a new shop"
    return f"""\
the shop is open ({begins})   bootstrap.servers={servers}   data {options.directory}

  topics     ottla topics list -b {servers}
  events     ottla consume orders -b {servers}
"""
