"""``ottla``: finds the command and loads only that one, and turns refusals into exit codes."""

import importlib
import re
import sys
from typing import Any, Final

import click

from ottla.cli.output import Output, broken_pipe, current_output

COMMANDS: Final = {
    "dev": ("ottla.cli.dev:dev", "Start a broker without any configuration."),
    "demo": ("ottla.cli.demo:demo", "Start a cluster, a shop's events, a pipeline on Spark."),
    "server": ("ottla.cli.server:server", "Start a node from a server.properties file."),
    "processes": (
        "ottla.cli.processes:processes",
        "Show and restart the processes of this machine.",
    ),
    "storage": ("ottla.cli.storage:storage", "Prepare the directories of a node."),
    "tls": ("ottla.cli.tls:tls", "Make certificates for development."),
    "topics": ("ottla.cli.topics:topics", "List, describe, create, change and delete topics."),
    "configs": ("ottla.cli.configs:configs", "Show and change the settings of topics and brokers."),
    "offsets": ("ottla.cli.offsets:offsets", "Show offsets of partitions, delete old records."),
    "cluster": ("ottla.cli.cluster:cluster", "Show the cluster and whether it is well."),
    "quorum": ("ottla.cli.quorum:quorum", "Show the controllers, add and remove voters."),
    "reassign": ("ottla.cli.reassign:reassign", "Move replicas from broker to broker."),
    "elect-leaders": ("ottla.cli.elect_leaders:elect_leaders", "Elect leaders of partitions."),
    "groups": ("ottla.cli.groups:groups", "List, describe and delete groups, reset offsets."),
    "transactions": (
        "ottla.cli.transactions:transactions",
        "List and describe transactions, abort those that hang.",
    ),
    "acls": ("ottla.cli.acls:acls", "Say who may do what: list, add, remove ACLs, and ask."),
    "users": ("ottla.cli.users:users", "List, add and remove users that log in by SCRAM."),
    "quotas": ("ottla.cli.quotas:quotas", "Show, set and remove quotas."),
    "tokens": ("ottla.cli.tokens:tokens", "Make, list, renew and end delegation tokens."),
    "produce": ("ottla.cli.produce:produce", "Write records from standard input to a topic."),
    "consume": ("ottla.cli.consume:consume", "Read records of a topic to standard output."),
    "log": ("ottla.cli.log:log", "Look into the files of a log, without a broker."),
    "jobs": ("ottla.cli.jobs:jobs", "Verify the remote tier, copy topics: work on Spark."),
    "pipeline": ("ottla.cli.pipeline:pipeline", "Run pipelines of topics and tables on Spark."),
    "sim": ("ottla.cli.sim:sim", "Try to break a simulated cluster, seed by seed."),
    "wire": ("ottla.cli.wire:wire", "Translate messages between the wire and JSON."),
    "version": ("ottla.cli.version:version", "Say what this is."),
    "completion": ("ottla.cli.completion:completion", "Print the completion script of a shell."),
}
"""What there is: where it stands, and the line that --help shows of it."""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used, not when they are listed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the cluster or the system refuses is said and ends with 1."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise _suggest(error) from None
        except BrokenPipeError:
            broken_pipe()
        except OSError as error:
            current_output(ctx).refuse(type(error).__name__, str(error))
        except Exception as error:
            # Loaded only now: most commands end without a refusal.
            from ottla.common.errors import ApiError

            if not isinstance(error, ApiError):
                raise
            current_output(ctx).refuse(error.code.name, str(error))
        return ctx.exit(1)


def _suggest(error: click.UsageError) -> click.UsageError:
    """Name the command that was probably meant, where click does not do so itself."""
    said = re.match(r"No such command '(.+)'", error.message)
    ctx = error.ctx
    if said is None or ctx is None or "mean" in error.format_message():
        return error
    from difflib import get_close_matches

    assert isinstance(ctx.command, click.Group)
    near = get_close_matches(said[1], ctx.command.list_commands(ctx), n=1)
    return click.UsageError(f"{error.message} Did you mean '{near[0]}'?", ctx) if near else error


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.option("--version", "show_version", is_flag=True, help="Say what this is, and end.")
@click.pass_context
def cli(ctx: click.Context, *, show_version: bool) -> None:
    """An event streaming platform that speaks Apache Kafka's protocol.

    Try `ottla dev`: a broker in a second, with lines to copy. `ottla COMMAND --help` tells more.
    """
    if show_version:
        from ottla import __version__

        Output().line(f"ottla {__version__}")
        ctx.exit()
    if ctx.invoked_subcommand is None:
        Output().line(ctx.get_help())


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(cli.main(prog_name="ottla", standalone_mode=True))
