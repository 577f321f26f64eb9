"""``ottla server``: a node from its server.properties file, as kafka-server-start does."""

from typing import TYPE_CHECKING, Final

import click

from ottla.cli.files import node_properties, process_environment

_ORPHAN_SECONDS: Final = (2.0, 18.0)
"""How long a node whose parent is gone may take to hand over its partitions, and to stop."""

if TYPE_CHECKING:
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
    until_eof: bool,
) -> None:
    """Start a node from FILE and serve until SIGTERM or Ctrl-C."""
    from ottla.cli.node_config import checked_config
    from ottla.config.environment import cluster_id, root_level
    from ottla.observability.logging import configure_logging
    from ottla.server.main import run_server

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
    config = checked_config(properties, path=file)
    if use_environment:
        from ottla.server.prepare import prepare_storage

        prepare_storage(config, cluster_id(environment))
    if until_eof:
        _stop_at_end_of_input()
    ctx.exit(run_server(config, ready=_announce))


def _stop_at_end_of_input() -> None:
    """The process that started us holds the other end of the pipe: we end when it is gone."""
    import os
    import signal
    import threading
    import time

    def watch() -> None:
        while os.read(0, 1024):
            pass
        for seconds in _ORPHAN_SECONDS:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(seconds)
        os._exit(1)

    threading.Thread(target=watch, name="ottla-parent", daemon=True).start()


def _announce(running: "Running") -> None:
    """Say the words that container tests wait for."""
    from ottla.observability.logging import logger

    node_id = running.node.config.node_id
    logger(__name__).info(f"[KafkaServer id={node_id}] started: Kafka Server started")
