"""Which logs a command is about: files by their paths, or partitions of topics by their names.

Names are looked up in the log directories that ``--log-dir`` or ``--config`` name, without a
broker. Where neither is given the cluster is asked, see :mod:`ottla.cli.cluster_places`.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from ottla.cli.completing import complete_logs
from ottla.cli.files import read_properties
from ottla.cli.output import Output
from ottla.cli.progress import progress_options
from ottla.cli.settings import ClientSettings, connection_options

if TYPE_CHECKING:
    from ottla.inspection.log_place import Place
    from ottla.inspection.remote_tier import RemoteTier

F = TypeVar("F", bound=Callable[..., Any])

TIERS: Final = ("all", "local", "remote")
_PARTITION: Final = re.compile(r"(.+)[:-](\d{1,10})", re.ASCII)
_OPTIONS: Final = ("log_dirs", "config", "remote_store", "tier", "quiet")


class Where(NamedTuple):
    """What the options of a command say."""

    log_dirs: tuple[str, ...]
    config: str | None
    remote_store: str | None
    tier: str
    quiet: bool
    client: ClientSettings

    @property
    def is_offline(self) -> bool:
        return bool(self.log_dirs) or self.config is not None

    @property
    def local(self) -> bool:
        return self.tier != "remote"

    @property
    def remote(self) -> bool:
        return self.tier != "local"

    def properties(self) -> dict[str, str]:
        """The settings of the node, as far as they are given."""
        properties = {} if self.config is None else read_properties(self.config)
        if self.remote_store is not None:
            properties["ottla.remote.store.url"] = self.remote_store
        return properties


_DECORATORS: Final = (
    click.option(
        "--tier",
        type=click.Choice(TIERS),
        default="all",
        show_default=True,
        help="Only segments on this disk, or only those in the remote store.",
    ),
    click.option(
        "--remote-store",
        metavar="URL",
        default=None,
        help="Where remote segments lie, as ottla.remote.store.url says it.",
    ),
    click.option(
        "-c",
        "--config",
        type=click.Path(exists=True, dir_okay=False),
        default=None,
        help="The server.properties of a node, for its directories and its remote store.",
    ),
    click.option(
        "-d",
        "--log-dir",
        "log_dirs",
        multiple=True,
        type=click.Path(exists=True, file_okay=False),
        help="A log directory in which topics are looked up; may be repeated.",
    ),
    progress_options,
    click.argument(
        "names", nargs=-1, metavar="[PATH|TOPIC[:PARTITION]]...", shell_complete=complete_logs
    ),
)


def place_options(command: F) -> F:
    """Give a command names of logs, all that says where they lie, and the argument ``where``."""

    def wrapped(*args: Any, client: ClientSettings, **kwargs: Any) -> Any:
        where = Where(**{name: kwargs.pop(name) for name in _OPTIONS}, client=client)
        return command(*args, where=where, **kwargs)

    wrapped.__doc__ = command.__doc__
    wrapped.__name__ = command.__name__
    connected = connection_options(wrapped)
    for option in _DECORATORS:
        connected = option(connected)
    return connected  # type: ignore[return-value]


class Found(NamedTuple):
    """The logs that were named, and their remote tier if they have one that is known."""

    places: list["Place"]
    tier: "RemoteTier | None"


def find_logs(names: Sequence[str], where: Where, output: Output) -> Found:
    """What was named; what is not there is said, and the rest goes on."""
    from ottla.inspection.read_only import FILES

    if not names and not where.is_offline:
        raise click.UsageError("name a topic or a directory, or give --log-dir or --config")
    paths = [name for name in names if FILES.is_directory(name)]
    topics = [name for name in names if name not in paths]
    for name in topics:
        if "/" in name:
            raise click.UsageError(f"{name}: no such directory")
    if topics and not where.is_offline:
        from ottla.cli.cluster_places import find_in_cluster

        found = find_in_cluster([split_name(name) for name in topics], where, output)
    else:
        found = _find_offline(topics, where, output, every=not names)
    return found._replace(places=_in_paths(paths) + found.places)


def split_name(name: str) -> tuple[str, int | None, str]:
    """A topic, a partition of it if one may be meant, and the name as a whole."""
    match = _PARTITION.fullmatch(name)
    return (name, None, name) if match is None else (match[1], int(match[2]), name)


def _in_paths(paths: Sequence[str]) -> list["Place"]:
    from ottla.inspection.log_place import has_segments, place_of, places_below

    found = []
    for path in paths:
        below = [place_of(path)] if has_segments(path) else places_below(path)
        if not below:
            raise click.UsageError(f"no segments in {path}")
        found += below
    return found


def _find_offline(names: Sequence[str], where: Where, output: Output, *, every: bool) -> Found:
    from ottla.cli.node_config import process_configs
    from ottla.inspection.log_place import Place, places_below
    from ottla.inspection.remote_tier import trouble
    from ottla.tiered.store import RemoteStoreError

    log_dirs = list(where.log_dirs)
    if not log_dirs and where.config is not None:
        configs = process_configs(where.properties(), where.config)
        log_dirs = [log_dir for config in configs for log_dir in config.log_dirs]
    known = [place for log_dir in log_dirs for place in places_below(log_dir)]
    tier = _open_tier(where)
    if every:
        return Found(known, tier)
    found: list[Place] = []
    for name in names:
        topic, partition, whole = split_name(name)
        chosen = [place for place in known if place.topic == whole]
        chosen += [place for place in known if (place.topic, place.partition) == (topic, partition)]
        if tier is not None and where.remote:
            try:
                chosen = _with_remote_only(chosen, tier, name)
            except RemoteStoreError as error:
                output.error("REMOTE_STORE", trouble(error))
                tier = None
        if not chosen:
            output.error("UNKNOWN_TOPIC_OR_PARTITION", "not in these directories", topic=name)
        found += chosen
    return Found(found, tier)


def _with_remote_only(chosen: list["Place"], tier: "RemoteTier", name: str) -> list["Place"]:
    """And the partitions of which only the remote store has something."""
    from ottla.inspection.log_place import Place

    topic, partition, whole = split_name(name)
    ids = {place.topic_id for place in chosen}
    known = {place.id_partition for place in chosen}
    candidates = tier.partitions(whole)
    if partition is not None:
        candidates += [each for each in tier.partitions(topic) if each.partition == partition]
    missing = [
        Place(each.topic, each.partition, topic_id=each.topic_id)
        for each in candidates
        # A topic of the same name that was deleted is another one.
        if each not in known and (not ids or each.topic_id in ids)
    ]
    return sorted([*chosen, *missing], key=lambda place: (place.topic, place.partition))


def _open_tier(where: Where) -> "RemoteTier | None":
    if not where.remote:
        return None
    properties = where.properties()
    if where.remote_store is None and where.config is None:
        return None
    from ottla.cli.node_config import process_configs
    from ottla.inspection.remote_tier import open_tier
    from ottla.tiered.driver.stores import store_url

    url = where.remote_store
    if url is None:
        config = process_configs(properties, where.config)[0]
        if not config.remote_log_storage_system_enable:
            return None
        url = store_url(config)
    return open_tier(url, properties)
