"""``ottla pipeline``: declared pipelines on Spark; needs ``pip install 'ottla[spark]'``."""

import json
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.cli.files import parse_assignments
from ottla.cli.job_runs import need_spark
from ottla.cli.output import Output

if TYPE_CHECKING:
    from ottla.spark.pipelines.model import Pipeline
    from ottla.spark.pipelines.state import RunState

STOP_SECONDS: Final = 120
WATCH_SECONDS: Final = 0.5

directory_argument = click.argument(
    "directory", default=".", type=click.Path(path_type=Path, exists=True)
)


@click.group()
def pipeline() -> None:
    """Make, run, watch and stop pipelines: topics to tables, to views, and back to topics."""


@pipeline.command()
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
@click.option("--template", type=click.Choice(["minimal", "shop"]), default="minimal",
              show_default=True, help="What to begin with.")  # fmt: skip
@click.option("--sql", "in_sql", is_flag=True, help="Definitions in SQL instead of Python.")
@click.option("--bootstrap-servers", default="localhost:9092", show_default=True,
              metavar="HOST:PORT,...", help="The brokers that the pipeline is to use.")  # fmt: skip
def init(*, directory: Path, template: str, in_sql: bool, bootstrap_servers: str) -> None:
    """Write a pipeline to begin with into DIRECTORY."""
    from ottla.spark.pipelines.model import PipelineError
    from ottla.spark.pipelines.template import name_of, write

    name = name_of(directory)
    try:
        made = write(directory, template, bootstrap_servers, in_sql=in_sql, name=name)
    except PipelineError as error:
        raise click.ClickException(str(error)) from None
    for path in made:
        Output().line(str(path))
    Output().talk(f"run it: ottla pipeline run {directory}")


@pipeline.command()
@directory_argument
@click.option("--master", default="local[*]", show_default=True,
              help="Where Spark runs: local[N], spark://..., yarn, k8s://...")  # fmt: skip
@click.option("--once", is_flag=True, help="Do what is there to do, and end.")
@click.option("--refresh", is_flag=True,
              help="Forget tables and checkpoints, and begin anew; topics stay.")  # fmt: skip
@click.option("--conf", multiple=True, metavar="NAME=VALUE",
              help="A setting of Spark; may be repeated.")  # fmt: skip
@click.option("--command-config", "client_config", envvar="OTTLA_CONFIG",
              type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="Who we are at the brokers, instead of what client_config says.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Tell progress as JSON, an object a line.")
def run(
    *,
    directory: Path,
    master: str,
    once: bool,
    refresh: bool,
    conf: tuple[str, ...],
    client_config: Path | None,
    as_json: bool,
) -> None:
    """Run the pipeline of DIRECTORY until Ctrl-C or `ottla pipeline stop`; then go on from there.

    Ends with 1 if a flow has failed for good.
    """
    need_spark()
    settings = parse_assignments(conf, "--conf")
    from ottla.spark.java import JavaMissing
    from ottla.spark.pipelines import runner
    from ottla.spark.pipelines.display import Display, Steps
    from ottla.spark.pipelines.model import PipelineError
    from ottla.spark.pipelines.state import FAILED

    stop = threading.Event()
    display = Display(sys.stdout, as_json=as_json)
    # Where the data goes elsewhere, the person at the terminal still sees that something is done.
    steps = Steps(sys.stderr) if sys.stderr.isatty() and not sys.stdout.isatty() else None

    def show(state: "RunState") -> None:
        _stop_on_signals(stop)  # again and again: Spark sets handlers of its own
        display.show(state)
        if steps is not None:
            steps.show(state)

    try:
        state = runner.run(
            _load(directory, client_config),
            master=master,
            once=once,
            refresh=refresh,
            conf=settings,
            show=show,
            stop=stop,
        )
    except (PipelineError, JavaMissing) as error:
        raise click.ClickException(str(error)) from None
    failed = any(flow.status == FAILED for flow in state.flows.values())
    sys.exit(1 if failed else 0)


def _stop_on_signals(stop: threading.Event) -> None:
    """The first asks; the second one ends at once."""

    def ask(number: int, _frame: Any) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    if not stop.is_set():
        signal.signal(signal.SIGINT, ask)
        signal.signal(signal.SIGTERM, ask)


@pipeline.command()
@directory_argument
@click.option("--json", "as_json", is_flag=True, help="The whole state as JSON.")
@click.option("--watch", is_flag=True, help="Go on showing it.")
def status(*, directory: Path, as_json: bool, watch: bool) -> None:
    """Show how the pipeline of DIRECTORY is: rows, lag, batch time, last error of each flow.

    Ends with 1 if it has failed, or died.
    """
    from ottla.spark.pipelines import state as states
    from ottla.spark.pipelines.display import Display, problems, table

    place = _load(directory).state_directory
    display = Display(sys.stdout, as_json=as_json)
    state = _read(place)
    while watch and state is not None and state.status not in states.ENDED:
        display.show(state)
        threading.Event().wait(WATCH_SECONDS)
        state = _read(place)
    if state is None:
        raise click.ClickException(f"nothing ever ran here: there is no {place / states.STATE}")
    if watch:
        display.show(state)
    elif as_json:
        Output().line(json.dumps(state.to_json(), indent=2))
    else:
        for line in table(state, 10_000, max(state.updated_ms, state.started_ms)):
            Output().line(line)
        for flow in state.flows.values():
            if flow.error and f"{flow.name}: {flow.error}" not in problems(state):
                Output().line(f"{flow.name}, earlier: {flow.error}")
    sys.exit(1 if state.status in {states.FAILED, states.DIED} else 0)


@pipeline.command()
@directory_argument
@click.option("--timeout", default=STOP_SECONDS, show_default=True, help="Seconds to wait.")
def stop(*, directory: Path, timeout: int) -> None:
    """Ask the run of DIRECTORY to end after its micro-batches, and wait until it has."""
    from ottla.spark.pipelines import state as states

    place = _load(directory).state_directory
    state = _read(place)
    if state is None or not states.is_locked(place):
        Output().talk("it does not run")
        return
    states.ask_to_stop(place, state)
    if not states.wait_until_ended(place, timeout, threading.Event().wait):
        raise click.ClickException(f"process {state.pid} still runs after {timeout} s")
    Output().talk("stopped")


def _load(directory: Path, client_config: Path | None = None) -> "Pipeline":
    from ottla.spark.pipelines.model import PipelineError
    from ottla.spark.pipelines.project import client_security, load

    try:
        loaded = load(directory)
        if client_config is None:
            return loaded
        return replace(loaded, security=client_security(client_config))
    except PipelineError as error:
        raise click.ClickException(str(error)) from None


def _read(place: Path) -> "RunState | None":
    from ottla.spark.pipelines.model import PipelineError
    from ottla.spark.pipelines.state import read

    try:
        return read(place)
    except PipelineError as error:
        raise click.ClickException(str(error)) from None
