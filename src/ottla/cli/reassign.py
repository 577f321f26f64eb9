"""``ottla reassign``: what kafka-reassign-partitions does, and a plan that moves little."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import click

from ottla.cli.completing import complete_topics
from ottla.cli.output import Column, Output, output_options
from ottla.cli.progress import progress_options
from ottla.cli.reassignment_files import plan_document, read_plan, write_plan
from ottla.cli.refusals import finish, report_refusals
from ottla.cli.settings import ClientSettings, connection_options
from ottla.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.reassignments import Reassignment

_MOVES: Final = (
    Column("topic"),
    Column("partition"),
    Column("replicas"),
    Column("new_replicas"),
    Column("adding", wide=True),
)
_STATES: Final = (Column("topic"), Column("partition"), Column("state"), Column("replicas"))
_ONGOING: Final = (
    Column("topic"),
    Column("partition"),
    Column("replicas"),
    Column("adding"),
    Column("removing"),
)
_FILE = click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True))


@click.group()
def reassign() -> None:
    """Move replicas from broker to broker: plan, execute, verify."""


def _brokers(_: click.Context, option: click.Parameter, text: str | None) -> list[int] | None:
    if text is None:
        return None
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() for word in words):
        raise click.UsageError(f"{option.opts[0]} takes ids of brokers as 1,2,3, not {text!r}")
    return [int(word) for word in words]


@reassign.command()
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    shell_complete=complete_topics,
    help="May be repeated.",
)
@click.option("--all", "of_all", is_flag=True, help="All topics, Kafka's own too.")
@click.option(
    "--brokers",
    callback=_brokers,
    metavar="ID,...",
    default=None,
    help="Where replicas may be. [default: all brokers]",
)
@click.option(
    "--from-broker",
    callback=_brokers,
    metavar="ID,...",
    default=None,
    help="Empty these brokers, and move nothing else.",
)
@click.option(
    "-r", "--replication-factor", type=click.IntRange(1), default=None, help="More or fewer copies."
)
@click.option("--disable-rack-aware", is_flag=True, help="Pay no heed to the racks of the brokers.")
@click.option(
    "-o",
    "--output-file",
    default=None,
    type=click.Path(dir_okay=False),
    help="Write the plan here.",
)
@output_options
@connection_options
def plan(
    *,
    topics: tuple[str, ...],
    of_all: bool,
    brokers: list[int] | None,
    from_broker: list[int] | None,
    replication_factor: int | None,
    disable_rack_aware: bool,
    output_file: str | None,
    output: Output,
    client: ClientSettings,
) -> None:
    """Say where replicas should be: even over brokers and racks, with few moves.

    Changes nothing. With --json or -o the plan is what `execute` and kafka-reassign-partitions
    read. Without --topic, --all means every topic; --from-broker alone does too.
    """
    from ottla.cli.clients import open_admin
    from ottla.client.placement import NotPlaceable, Placement, changes

    if of_all and topics:
        raise click.UsageError("--topic and --all exclude each other")
    if not of_all and not topics and from_broker is None:
        raise click.UsageError("give --topic, --all or --from-broker")
    with open_admin(client) as admin:
        current = _replicas(admin)
        described = admin.describe_cluster(fenced=True).brokers
        if topics:
            admin.describe_topics(topics)  # refuses those that do not exist
    alive = {broker.node_id for broker in described if not broker.fenced}
    racks = {each.node_id: None if disable_rack_aware else each.rack for each in described}
    targets = _targets(brokers, from_broker, alive)
    chosen = [partition for partition in current if not topics or partition.topic in topics]
    if from_broker is not None:
        chosen = [each for each in chosen if not set(from_broker).isdisjoint(current[each])]
    try:
        planned = Placement(current, racks, targets).plan(
            chosen, replication_factor=replication_factor, balance=from_broker is None
        )
    except NotPlaceable as error:
        raise click.UsageError(str(error)) from None
    moves = changes(current, planned)
    assignment = {move.partition: move.after for move in moves}
    if output_file is not None:
        write_plan(output_file, assignment)
    if output.is_document:
        output.document(plan_document(assignment))
        return
    rows = [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": move.before,
            "new_replicas": move.after,
            "adding": move.adding,
        }
        for move in moves
    ]
    output.stream(_MOVES, rows)
    copies = sum(len(move.adding) for move in moves)
    output.talk(f"{len(moves)} of {len(chosen)} partitions change, {copies} replicas are copied")


def _targets(brokers: list[int] | None, emptied: list[int] | None, alive: set[int]) -> set[int]:
    named = set(brokers or alive)
    unknown = sorted((named | set(emptied or ())) - alive) if brokers else sorted(named - alive)
    if unknown:
        known = ", ".join(map(str, sorted(alive)))
        raise click.UsageError(f"not among the brokers that live ({known}): {unknown}")
    return named - set(emptied or ())


def _replicas(admin: "Admin") -> dict[TopicPartition, list[int]]:
    """The replicas of every partition, those on the move where they go to."""
    from ottla.client.reassignments import list_reassignments

    known = admin.cluster.refresh(None).topics
    ongoing = list_reassignments(admin.cluster)
    found = {}
    for topic in known.values():
        for each in topic.partitions.values():
            partition = TopicPartition(topic.name, each.partition)
            going = ongoing.get(partition)
            removing = [] if going is None else going.removing
            found[partition] = [broker for broker in each.replicas if broker not in removing]
    return found


@reassign.command()
@_FILE
@click.option(
    "--throttle",
    type=click.IntRange(1),
    default=None,
    metavar="BYTES",
    help="Bytes in a second that brokers may copy; `verify` takes it away.",
)
@click.option("--additional", is_flag=True, help="Although others still go on.")
@click.option(
    "--save-current",
    default=None,
    type=click.Path(dir_okay=False),
    help="Write where the replicas are now here, to go back.",
)
@click.option("--wait", is_flag=True, help="Until all is done; then throttles are taken away.")
@click.option("--dry-run", is_flag=True, help="Say what would move, and change nothing.")
@progress_options
@output_options
@connection_options
def execute(
    *,
    file: str,
    throttle: int | None,
    additional: bool,
    save_current: str | None,
    wait: bool,
    dry_run: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Move replicas as FILE says (`-` is standard input)."""
    from ottla.cli.clients import open_admin
    from ottla.cli.reassignment_progress import watch
    from ottla.client.placement import Move
    from ottla.client.reassignments import alter_reassignments, list_reassignments
    from ottla.client.throttles import clear_throttles, throttle_changes, with_ongoing

    wanted = read_plan(file)
    with open_admin(client) as admin:
        ongoing = list_reassignments(admin.cluster)
        if ongoing and not additional:
            raise click.UsageError(
                f"{len(ongoing)} partitions are being reassigned: wait, cancel, or use --additional"
            )
        current = _current(admin, wanted, output)
        moves = [Move(each, current[each], wanted[each]) for each in wanted if each in current]
        if save_current is not None:
            write_plan(save_current, current)
        if throttle is not None and not dry_run:
            admin.alter_configs(throttle_changes(with_ongoing(moves, ongoing), throttle))
        started = dict.fromkeys(move.partition for move in moves)
        if not dry_run and started:
            targets = {move.partition: move.after for move in moves}
            started = report_refusals(
                output, "partition", lambda: alter_reassignments(admin.cluster, targets)
            )
        if wait and not dry_run:
            watch(admin, [move for move in moves if move.partition in started], quiet=quiet)
            if throttle is not None and not list_reassignments(admin.cluster):
                clear_throttles(admin, {each.topic for each in started})
    rows = [
        {
            "topic": move.partition.topic,
            "partition": move.partition.partition,
            "replicas": move.before,
            "new_replicas": move.after,
            "adding": move.adding,
            "dry_run": dry_run,
        }
        for move in moves
        if move.partition in started
    ]
    output.rows("done" if wait else "started", _MOVES, rows)
    if throttle is not None and not wait and not dry_run:
        output.talk("`ottla reassign verify` takes the throttle away when all is done")
    finish(output)


def _current(
    admin: "Admin", wanted: Iterable[TopicPartition], output: Output
) -> dict[TopicPartition, list[int]]:
    """Where the replicas of the plan are; what is in no topic is said."""
    known = admin.cluster.refresh(None).topics
    found = {}
    for partition in wanted:
        topic = known.get(partition.topic)
        each = None if topic is None else topic.partitions.get(partition.partition)
        if each is None:
            output.error(
                "UNKNOWN_TOPIC_OR_PARTITION", "there is no such partition", partition=str(partition)
            )
        else:
            found[partition] = each.replicas
    return found


@reassign.command()
@_FILE
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@click.option("--wait", is_flag=True, help="Until all is done.")
@progress_options
@output_options
@connection_options
def verify(
    *,
    file: str,
    preserve_throttles: bool,
    wait: bool,
    quiet: bool,
    output: Output,
    client: ClientSettings,
) -> None:
    """Say how far FILE is; take throttles away when nothing moves any more.

    Ends with 1 as long as something is not as FILE says.
    """
    from ottla.cli.clients import open_admin
    from ottla.cli.reassignment_progress import watch
    from ottla.client.placement import Move
    from ottla.client.reassignments import list_reassignments
    from ottla.client.throttles import clear_throttles

    wanted = read_plan(file)
    with open_admin(client) as admin:
        current = _current(admin, wanted, output)
        if wait:
            watch(admin, [Move(each, current[each], wanted[each]) for each in current], quiet=quiet)
            current = _current(admin, wanted, output)
        ongoing = list_reassignments(admin.cluster)
        states = {each: _state(each, wanted, current, ongoing) for each in current}
        if not ongoing and not preserve_throttles:
            clear_throttles(admin, {each.topic for each in current})
    rows = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "state": state,
            "replicas": current[each],
            "wanted": wanted[each],
        }
        for each, state in states.items()
    ]
    output.rows("partitions", [*_STATES, Column("wanted", wide=True)], rows)
    if any(state != "completed" for state in states.values()):
        output.failed = True
    finish(output)


def _state(
    partition: TopicPartition,
    wanted: Mapping[TopicPartition, list[int]],
    current: Mapping[TopicPartition, list[int]],
    ongoing: Mapping[TopicPartition, "Reassignment"],
) -> str:
    if partition in ongoing:
        return "in progress"
    return "completed" if current[partition] == wanted[partition] else "different"


@reassign.command()
@_FILE
@click.option("--preserve-throttles", is_flag=True, help="Leave throttles as they are.")
@output_options
@connection_options
def cancel(*, file: str, preserve_throttles: bool, output: Output, client: ClientSettings) -> None:
    """Take back what goes on of FILE: replicas stay where they were."""
    from ottla.cli.clients import open_admin
    from ottla.client.reassignments import alter_reassignments, list_reassignments
    from ottla.client.throttles import clear_throttles

    wanted = read_plan(file)
    with open_admin(client) as admin:
        ongoing = list_reassignments(admin.cluster)
        targets = dict.fromkeys(each for each in wanted if each in ongoing)
        cancelled = {}
        if targets:
            cancelled = report_refusals(
                output, "partition", lambda: alter_reassignments(admin.cluster, targets)
            )
        if not preserve_throttles and not list_reassignments(admin.cluster):
            clear_throttles(admin, {each.topic for each in wanted})
    output.rows("cancelled", _ONGOING, [_ongoing_row(each, ongoing[each]) for each in cancelled])
    finish(output)


@reassign.command("list")
@output_options
@connection_options
def list_command(*, output: Output, client: ClientSettings) -> None:
    """Show the reassignments that go on."""
    from ottla.cli.clients import open_admin
    from ottla.client.reassignments import list_reassignments

    with open_admin(client) as admin:
        ongoing = list_reassignments(admin.cluster)
    rows = [_ongoing_row(each, going) for each, going in sorted(ongoing.items())]
    output.rows("reassignments", _ONGOING, rows)


def _ongoing_row(partition: TopicPartition, going: "Reassignment") -> dict[str, object]:
    return {"topic": partition.topic, "partition": partition.partition, **going._asdict()}
