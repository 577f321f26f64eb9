"""``ottla server``: a node from its server.properties file, as kafka-server-start does."""

from typing import TYPE_CHECKING

import click

from ottla.cli.files import node_properties, process_environment
from ottla.cli.loading import loading

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.server.main import Running


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False))
@click.option(
    "--override",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting that goes before the file; may be repeated.",
)
@click.option(
    "--env",
    "use_environment",
    is_flag=True,
    help="Take settings from KAFKA_ variables too, and format what is not formatted, as "
    "Apache's container image does.",
)
@click.option(
    "--log-level",
    default=None,
    metavar="LEVEL",
    help="TRACE, DEBUG, INFO, WARN, ERROR, FATAL or OFF. [default: INFO]",
)
@click.option(
    "--process",
    "number",
    type=click.IntRange(1),
    default=None,
    metavar="K",
    help="Only the K-th of the processes that the file describes (ottla.processes).",
)
@click.option("--answers-to", type=int, default=None, hidden=True, help="The pipe to our parent.")
@click.option("--until-eof", is_flag=True, hidden=True, help="Stop when standard input ends, too.")
@click.option("--log-json", is_flag=True, help="Log lines as JSON.")
@click.pass_context
def server(
    ctx: click.Context,
    *,
    file: str | None,
    overrides: tuple[str, ...],
    use_environment: bool,
    log_level: str | None,
    log_json: bool,
    number: int | None,
    until_eof: bool,
    answers_to: int | None,
) -> None:
    """Start a node from FILE and serve until SIGTERM or Ctrl-C.

    With ottla.processes=N in FILE it starts N brokers, each a process; SIGHUP restarts them one by
    one, and `ottla processes` says how they are.
    """
    with loading():
        from ottla.cli.node_config import checked_config, process_configs
        from ottla.config.environment import cluster_id, root_level
        from ottla.observability.logging import configure_logging
        from ottla.server.main import run_server
        from ottla.server.supervision.link import Link

    if file is None and not use_environment:
        raise click.UsageError("give a server.properties file, or --env")
    environment = process_environment()
    try:
        configure_logging(log_level or root_level(environment) or "INFO", as_json=log_json)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    properties = node_properties(
        file, overrides, environment=environment if use_environment else None
    )
    configs = process_configs(properties, file)
    if number is not None and number > len(configs):
        raise click.UsageError(f"--process {number}: there are {len(configs)} (ottla.processes)")
    if use_environment:
        from ottla.server.prepare import prepare_processes

        prepare_processes(configs, cluster_id(environment))
    if number is None:
        _check_left_out(configs)
    if number is None and len(configs) > 1:
        words = [] if file is None else [file]
        words += ["--env"] * use_environment + ["--log-json"] * log_json
        words += ["--log-level", log_level or root_level(environment) or "INFO"]
        words += [word for override in overrides for word in ("--override", override)]
        ctx.exit(_supervise(configs, words, log_json=log_json))
    config = checked_config(configs[(number or 1) - 1].originals, path=file)
    link = Link(answers_to)
    if until_eof:
        link.watch()

    def ready(running: "Running") -> None:
        _announce(running)
        link.serving(running)

    ctx.exit(run_server(config, ready=ready))


def _check_left_out(configs: list["BrokerConfig"]) -> None:
    from ottla.server.shared_server import StartRefused
    from ottla.server.supervision.left_out import check_left_out

    try:
        check_left_out(configs)
    except StartRefused as refusal:
        raise click.ClickException(str(refusal)) from refusal


def _supervise(configs: list["BrokerConfig"], words: list[str], *, log_json: bool) -> int:
    from ottla.observability.logging import logger
    from ottla.server.shared_server import StartRefused
    from ottla.server.supervision.start import run_processes

    try:
        return run_processes(configs, words, as_json=log_json)
    except StartRefused as refusal:
        logger(__name__).error("the processes do not start", reason=str(refusal))
        return 1


def _announce(running: "Running") -> None:
    """Say the words that container tests wait for."""
    from ottla.observability.logging import logger

    node_id = running.node.config.node_id
    logger(__name__).info(f"[KafkaServer id={node_id}] started: Kafka Server started")
