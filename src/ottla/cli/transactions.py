"""``ottla transactions``: what is open, since when, on which partitions; and ending what hangs."""

from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completing import complete_topics
from ottla.cli.consent import confirm
from ottla.cli.output import Column, Output, output_options
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.transactions import PartitionProducer
    from ottla.common.topic_partition import TopicPartition

STATES: Final = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
)
OPEN: Final = ("Ongoing", "PrepareCommit", "PrepareAbort")
MINUTE_MS: Final = 60_000
MAX_TIMEOUT_MINUTES: Final = 15

_PRODUCER: Final = (
    Column("topic"),
    Column("partition"),
    Column("producer_id"),
    Column("producer_epoch"),
    Column("coordinator_epoch"),
    Column("last_sequence", wide=True),
    Column("last_timestamp"),
    Column("transaction_start_offset"),
)


@click.group()
def transactions() -> None:
    """List and describe transactions, find and abort those that hang."""


@transactions.command("list")
@click.option("--state", "states", type=click.Choice(STATES), multiple=True, help="Only in it.")
@click.option("--producer-id", "producer_ids", type=int, multiple=True, help="Only of this one.")
@click.option("--longer-than", type=click.IntRange(0), metavar="MS", help="Only if open so long.")
@click.option("--match", "pattern", metavar="REGEX", help="Only ids that match it as a whole.")
@output_options
@connection_options
def list_command(
    *,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    longer_than: int | None,
    pattern: str | None,
    output: Output,
    client: ClientSettings,
) -> None:
    """Show the transactional ids that coordinators know; options may be repeated."""
    from ottla.cli.clients import open_admin
    from ottla.client.transactions import list_transactions

    with open_admin(client) as admin:
        found = list_transactions(
            admin.cluster,
            states=states,
            producer_ids=producer_ids,
            longer_than_ms=-1 if longer_than is None else longer_than,
            pattern=pattern,
        )
    columns = ("transactional_id", "coordinator", "producer_id", "state")
    output.rows("transactions", [Column(each) for each in columns], [e._asdict() for e in found])


@transactions.command("describe")
@click.argument("transactional_ids", nargs=-1, required=True)
@output_options
@connection_options
def describe(*, transactional_ids: tuple[str, ...], output: Output, client: ClientSettings) -> None:
    """Show what the coordinator knows of transactional ids."""
    from ottla.cli.clients import open_admin
    from ottla.client.transactions import describe_transaction
    from ottla.common.errors import ApiError

    rows = []
    with open_admin(client) as admin:
        now_ms = admin.cluster.clock.wall_ms()
        for transactional_id in transactional_ids:
            try:
                found = describe_transaction(admin.cluster, transactional_id)
            except ApiError as error:
                output.error(error.code.name, str(error), transactional_id=transactional_id)
                continue
            row = found._asdict()
            is_open = found.state in OPEN and found.start_ms is not None
            row["duration_ms"] = now_ms - (found.start_ms or 0) if is_open else None
            row["partitions"] = [f"{topic}-{index}" for topic, index in found.partitions]
            rows.append(row)
    output.rows(
        "transactions",
        [
            Column("transactional_id"),
            Column("coordinator"),
            Column("producer_id"),
            Column("producer_epoch"),
            Column("state"),
            Column("timeout_ms", wide=True),
            Column("start_ms", wide=True),
            Column("duration_ms"),
            Column("partitions"),
        ],
        rows,
    )
    finish(output)


@transactions.command("describe-producers")
@click.argument("topic", shell_complete=complete_topics)
@click.option(
    "-p", "--partition", "chosen", type=click.IntRange(0), multiple=True, help="Only this one."
)
@output_options
@connection_options
def describe_producers(
    *, topic: str, chosen: tuple[int, ...], output: Output, client: ClientSettings
) -> None:
    """Show who writes to the partitions of a topic, and who has a transaction open."""
    from ottla.cli.clients import open_admin

    with open_admin(client) as admin:
        described = report_refusals(
            output, "partition", lambda: admin.describe_producers(_of(admin, topic, chosen))
        )
    rows = [
        _row(partition, producer)
        for partition, producers in sorted(described.items())
        for producer in producers
    ]
    output.rows("producers", _PRODUCER, rows)
    finish(output)


@transactions.command("find-hanging")
@click.argument("topics", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--max-transaction-timeout",
    type=click.IntRange(0),
    default=MAX_TIMEOUT_MINUTES,
    show_default=True,
    metavar="MINUTES",
    help="The longest timeout that brokers allow: what is younger does not hang.",
)
@output_options
@connection_options
def find_hanging(
    *,
    topics: tuple[str, ...],
    max_transaction_timeout: int,
    output: Output,
    client: ClientSettings,
) -> None:
    """Show transactions that partitions hold open and no coordinator knows; of all topics."""
    from ottla.cli.clients import open_admin
    from ottla.client.transactions import find_hanging as find

    with open_admin(client) as admin:
        before_ms = admin.cluster.clock.wall_ms() - max_transaction_timeout * MINUTE_MS
        names = topics or admin.list_topics(internal=True)
        asked = [each for name in names for each in _of(admin, name, ())]
        hanging, refused = find(admin.cluster, asked, before_ms=before_ms)
    for partition, error in refused.items():
        output.error(error.code.name, str(error), partition=str(partition))
    rows = [_row(*each) for each in hanging]
    output.rows("hanging", _PRODUCER, rows, none="no transaction hangs")
    finish(output)


@transactions.command("abort")
@click.argument("topic", shell_complete=complete_topics)
@click.option("-p", "--partition", type=click.IntRange(0), required=True)
@click.option("--start-offset", type=click.IntRange(0), help="Where the transaction begins.")
@click.option("--producer-id", type=click.IntRange(0), help="Whose it is.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_options
@connection_options
def abort(
    *,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    yes: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Abort a transaction on one partition, whatever its coordinator may say."""
    from ottla.cli.clients import open_admin
    from ottla.client.transactions import OpenTransaction
    from ottla.client.transactions import abort as abort_one
    from ottla.common.topic_partition import TopicPartition

    if (start_offset is None) == (producer_id is None):
        raise click.UsageError("give --start-offset or --producer-id")
    name = TopicPartition(topic, partition)
    with open_admin(client) as admin:
        producers = admin.describe_producers([name])[name]
        found = [
            OpenTransaction(name, each)
            for each in producers
            if each.transaction_start_offset is not None
            and (start_offset is None or each.transaction_start_offset == start_offset)
            and (producer_id is None or each.producer_id == producer_id)
        ]
        if not found:
            raise click.ClickException(f"no such transaction is open on {topic}-{partition}")
        producer = found[0].producer
        confirm(
            f"Abort the transaction of producer {producer.producer_id} on {topic}-{partition}?",
            yes=yes,
        )
        abort_one(admin.cluster, found[0])
    output.rows("aborted", _PRODUCER, [_row(*found[0])])


def _of(admin: "Admin", topic: str, chosen: tuple[int, ...]) -> list["TopicPartition"]:
    from ottla.common.topic_partition import TopicPartition

    return [
        TopicPartition(topic, index)
        for index in admin.cluster.topic(topic).partitions
        if not chosen or index in chosen
    ]


def _row(partition: "TopicPartition", producer: "PartitionProducer") -> dict[str, object]:
    return {**partition._asdict(), **producer._asdict()}
