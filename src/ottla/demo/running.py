"""The demo itself: a cluster, the generator, the pipeline and the figures, from start to end.

Ctrl-C stops all in order: the generator, the pipeline after its micro-batches, the brokers one by
one. A second Ctrl-C ends everything at once. All that runs as a process of its own is in a process
group of its own, so that a Ctrl-C at the terminal comes here alone.
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
from ottla.demo.pipeline_process import LOG, PipelineProcess, stages
from ottla.demo.results import Results
from ottla.demo.terminal import Display
from ottla.demo.topics import DEAD_LETTERS, ENRICHED, EVENTS, RESULTS, create_missing, end_offsets
from ottla.server.local_cluster import HOST
from ottla.server.local_nodes import POLL_SECONDS, LocalNodes, busy_ports, local_places
from ottla.spark.pipelines.model import PipelineError
from ottla.spark.pipelines.state import RUNNING, STARTING, RunState

START_SECONDS: Final = 60.0
WATCH_SECONDS: Final = 0.2
NODES: Final = "brokers"
PIPELINE: Final = "pipeline"
"""Where the nodes' directories and the pipeline are, below that of the demo."""
PHASES: Final = {
    STARTING: "Spark is up, the pipeline is made ready",
    RUNNING: "the pipeline runs",
}
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
    without_spark: str = ""
    """Why there is no pipeline; nothing if there is one."""


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
        servers = self._nodes.bootstrap_servers
        self._generator = Generator(servers, seed=options.seed, rate=options.rate)
        self._results = Results(servers)
        self._rates = Rates()
        self._ended: set[int] = set()
        self._pipeline: PipelineProcess | None = None
        self._why_not = options.without_spark
        if not self._why_not:
            directory = options.directory
            self._pipeline = PipelineProcess(directory / PIPELINE, directory / LOG, servers)
        self._state: RunState | None = None
        self._told: set[str] = set()

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
            if self._pipeline is not None:
                self._pipeline.kill()
            self._nodes.kill()
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, _number: int, _frame: object) -> None:
        self._asked_to_stop += 1

    def _hurry(self) -> bool:
        return self._asked_to_stop > 1

    def _wanted(self) -> bool:
        """Whether nobody wants it to end."""
        limit = self._options.seconds
        return not self._asked_to_stop and (limit is None or self._seconds < limit)

    @property
    def _seconds(self) -> float:
        return self._clock.monotonic() - self._began

    def _tell(self, text: str) -> None:
        self._display.say(f"{self._seconds:6.1f} s  {text}")

    # Its beginning.

    def _start(self) -> None:
        if self._pipeline is not None:
            self._tell(f"starting {self._options.brokers} brokers and Spark")
            try:
                self._pipeline.start()
            except PipelineError as error:
                raise DemoFailed(str(error)) from error
        else:
            self._tell(f"starting {self._options.brokers} brokers; no pipeline: {self._why_not}")
        self._nodes.start()
        if not self._wait_until_ready():
            return
        self._tell("the brokers serve")
        servers = self._nodes.bootstrap_servers
        with Admin(servers) as admin:
            create_missing(admin)
        self._generator.open()
        self._generator.start()
        self._results.start()
        if self._pipeline is not None:
            self._pipeline.go()
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
                self._look_at_nodes()
                self._look_at_pipeline()
                if self._seconds >= due:
                    self._show(admin)
                    due = self._seconds + self._display.every_seconds
                self._clock.wait(WATCH_SECONDS)

    def _look_at_nodes(self) -> None:
        for node in self._nodes.ended():
            if node.node_id not in self._ended:
                self._ended.add(node.node_id)
                self._tell(f"node {node.node_id} ended with {node.exit_code}: {node.output_file}")
        if not self._nodes.alive():
            raise DemoFailed("no broker is left")

    def _look_at_pipeline(self) -> None:
        """Tell of each phase once, so that one sees what takes how long."""
        if self._pipeline is None:
            return
        self._state = self._pipeline.state()
        if self._state is not None:
            self._tell_once(PHASES.get(self._state.status, ""))
        if self._results.last_minute()[0]:
            self._tell_once("the first enriched orders are back in a topic")
        if not self._pipeline.is_running:
            self._why_not = f"ended with {self._pipeline.exit_code}, see {self._pipeline.log}"
            self._tell(f"the pipeline {self._why_not}:\n{self._pipeline.last_words()}")
            self._pipeline = self._state = None

    def _tell_once(self, text: str) -> None:
        if text and text not in self._told:
            self._told.add(text)
            self._tell(text)

    def _show(self, admin: Admin) -> None:
        try:
            counts = end_offsets(admin, (*EVENTS, *RESULTS))
        except (ApiError, OSError) as error:
            self._tell(f"no broker tells how far the topics are: {error}")
            return
        shown = self._figures(counts)
        if self._display.is_live:
            self._display.show(figures.screen(shown, self._display.width))
        else:
            self._display.say(figures.line(shown, EVENTS, ENRICHED, DEAD_LETTERS))

    def _figures(self, counts: dict[str, int]) -> Figures:
        rates = self._rates.sample(self._seconds, counts)
        orders, amount, by_country, newest = self._results.last_minute()
        state = self._state
        pipeline = self._why_not or ("starting Spark" if state is None else state.status)
        return Figures(
            self._seconds,
            [Stage(name, count, rates[name]) for name, count in counts.items()],
            pipeline,
            [] if state is None else stages(state),
            orders,
            amount,
            by_country,
            newest,
            self._generator.trouble,
        )

    # Its end.

    def _stop(self) -> int:
        self._tell("stopping; a second Ctrl-C ends everything at once")
        self._generator.stop()
        if self._pipeline is not None:
            self._pipeline.stop(self._hurry)
            self._tell("the pipeline has stopped")
        self._results.stop()
        if not self._nodes.stop(self._hurry):
            return 1
        kept = self._options.directory
        self._tell(f"stopped. Run it again to go on; remove {kept} to begin anew.")
        codes = [node.exit_code for node in self._nodes.nodes.values()]
        return 0 if all(code == 0 for code in codes) else 1


def banner(servers: str, options: Options, visits: int) -> str:
    """Where it is, and lines to copy."""
    begins = f"going on with visit {visits:,}" if visits else "a new shop"
    text = f"""\

the shop is open ({begins})   bootstrap.servers={servers}   data {options.directory}

  events     ottla consume orders -b {servers}
  lag        ottla groups list -b {servers}
"""
    if options.without_spark:
        return text
    pipeline = options.directory / PIPELINE
    return f"""{text}\
  results    ottla consume {ENRICHED} -b {servers} --isolation-level read_committed
  bad ones   ottla consume {DEAD_LETTERS} -b {servers} --from-beginning
  pipeline   ottla pipeline status {pipeline}
  its files  {pipeline}/transformations (change them and run again)
  tables     {pipeline}/storage/tables (Parquet)
  Spark      {options.directory / LOG}
"""
