"""``ottla demo``: the whole way of events, in one command."""

import sys
from pathlib import Path
from typing import Final

import click

DEFAULT_PORT: Final = 9092
DEFAULT_DIRECTORY: Final = ".ottla-demo"


@click.command()
@click.option(
    "--brokers",
    type=click.IntRange(1, 9),
    default=3,
    show_default=True,
    help="So many brokers, each a process, on every second port.",
)
@click.option(
    "--directory",
    type=click.Path(file_okay=False),
    default=DEFAULT_DIRECTORY,
    show_default=True,
    help="Where all data is kept; a later run goes on with it.",
)
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="The port of the first broker.",
)
@click.option("--any-port", is_flag=True, help="Any free ports.")
@click.option(
    "--rate",
    type=click.FloatRange(1, 100_000),
    default=500,
    show_default=True,
    help="Events per second.",
)
@click.option("--no-spark", is_flag=True, help="Without the pipeline.")
@click.option(
    "--seed",
    type=click.IntRange(0, 2**63),
    default=0,
    help="Another shop; for a new directory only.",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0, min_open=True),
    default=None,
    help="Stop by itself after so long.",
)
@click.pass_context
def demo(
    ctx: click.Context,
    *,
    brokers: int,
    directory: str,
    port: int,
    any_port: bool,
    rate: float,
    no_spark: bool,
    seed: int,
    seconds: float | None,
) -> None:
    """Start a cluster, a shop whose events never end, and a pipeline on Spark; until Ctrl-C.

    Orders are enriched and counted by windows, the latest state of each is kept, and the enriched
    orders come back to a topic. Needs pip install 'ottla[spark]' and Java 17 or later; where they
    are missing, that is said, and the rest runs.
    """
    from ottla.demo.requirements import missing
    from ottla.demo.running import Demo, DemoFailed, Options
    from ottla.demo.terminal import Display
    from ottla.server.local_nodes import UnsuitablePlaces

    options = Options(
        Path(directory).resolve(),
        brokers,
        None if any_port else port,
        rate,
        seed,
        seconds,
        without_spark="--no-spark" if no_spark else "; ".join(missing()),
    )
    try:
        ctx.exit(Demo(options, Display(sys.stdout)).run())
    except UnsuitablePlaces as error:
        raise click.UsageError(str(error)) from error
    except DemoFailed as error:
        raise click.ClickException(str(error)) from error
