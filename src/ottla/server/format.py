"""Formatting the log directories of a node, as ``kafka-storage format`` does.

Every log directory gets ``meta.properties`` with an id of its own and ``bootstrap.checkpoint`` with
the features that the first controller is to write. The metadata directory of a controller in a
dynamic quorum gets the voters too, as the snapshot of offset 0 and epoch 0.
``meta.properties`` is written last: a directory without it counts as not formatted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.common.identifiers import random_uuid, uuid_from_text
from ottla.config.broker import BrokerConfig
from ottla.controller.scram import scram_record
from ottla.metadata import versions
from ottla.metadata.records import MetadataRecord, encode_record
from ottla.metadata.snapshot import container
from ottla.protocol.generated.metadata_records import FeatureLevelRecord
from ottla.raft.log import metadata_directory
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotStore
from ottla.raft.voters import ReplicaKey, VoterEndpoint, VoterNode, VoterSet
from ottla.security.scram_text import parse_scram
from ottla.storage.checkpoints import META_PROPERTIES, MetaProperties
from ottla.storage.files import Filesystem

BOOTSTRAP_CHECKPOINT: Final = "bootstrap.checkpoint"
_FLAGS: Final = "--standalone, --initial-controllers, or --no-initial-controllers"
_VOTER: Final = re.compile(r"(\d+)@(\[[^\]]+\]|[^:\[]+):(\d+):([A-Za-z0-9_-]{22})", re.ASCII)


class FormatRefused(InvalidConfig):
    """The directories cannot be formatted so; nothing was written."""


class _Plan(NamedTuple):
    """What is to be written into one directory."""

    path: str
    kind: str
    directory_id: bytes
    voters: VoterSet | None


def format_storage(
    filesystem: Filesystem,
    config: BrokerConfig,
    cluster_id: str,
    *,
    standalone: bool = False,
    no_initial_controllers: bool = False,
    initial_controllers: str | None = None,
    features: Mapping[str, int] | None = None,
    release_version: str | None = None,
    ignore_formatted: bool = False,
    add_scram: Iterable[str] = (),
    chance: Chance,
    now_ms: int,
) -> list[str]:
    """Format what is not formatted yet; return the lines that tell of it."""
    dynamic = standalone or no_initial_controllers or initial_controllers is not None
    _check_quorum(config, dynamic=dynamic, names_voters=dynamic and not no_initial_controllers)
    if standalone and not config.is_controller:
        raise FormatRefused("You can only use --standalone on a controller.")
    level = _metadata_version(release_version)
    levels = _feature_levels(level, features or {}, dynamic=dynamic)
    directories = _unformatted(filesystem, config, ignore_formatted=ignore_formatted)
    if not directories:
        return ["All of the log directories are already formatted."]
    voters = None
    if initial_controllers is not None:
        voters = _initial_voters(initial_controllers, config.controller_listener_names[0])
    plans = [
        _plan(config, path, voters, standalone=standalone, chance=chance) for path in directories
    ]
    records: list[MetadataRecord] = [
        FeatureLevelRecord(name=name, feature_level=each) for name, each in levels.items()
    ]
    records += _scram_records(add_scram, level, chance)
    lines = [f"Bootstrap metadata: {_described(levels)}"]
    for plan in plans:
        meta = MetaProperties(cluster_id, config.node_id, plan.directory_id)
        _format(filesystem, plan, meta, records, now_ms)
        release = versions.metadata_version_name(level)
        lines.append(
            f"Formatting {plan.kind} {plan.path} with {versions.METADATA_VERSION} {release}."
        )
    return lines


def format_processes(
    filesystem: Filesystem,
    configs: Sequence[BrokerConfig],
    cluster_id: str,
    *,
    standalone: bool = False,
    no_initial_controllers: bool = False,
    initial_controllers: str | None = None,
    features: Mapping[str, int] | None = None,
    release_version: str | None = None,
    ignore_formatted: bool = False,
    add_scram: Sequence[str] = (),
    chance: Chance,
    now_ms: int,
) -> list[str]:
    """Format all processes of a machine: the first as it is told, the others as brokers with it.

    Where there are several, what is formatted already must be of the same cluster; otherwise
    nothing is written.
    """
    for config in configs:
        if len(configs) > 1:
            _check_cluster(filesystem, config, cluster_id)
        if not ignore_formatted:
            _unformatted(filesystem, config, ignore_formatted=False)
    dynamic = standalone or no_initial_controllers or initial_controllers is not None
    lines: list[str] = []
    for config in configs:
        is_first = config is configs[0]
        told = format_storage(
            filesystem,
            config,
            cluster_id,
            standalone=standalone and is_first,
            no_initial_controllers=no_initial_controllers or (dynamic and not is_first),
            initial_controllers=initial_controllers if is_first else None,
            features=features,
            release_version=release_version,
            ignore_formatted=ignore_formatted,
            add_scram=add_scram if is_first else (),
            chance=chance,
            now_ms=now_ms,
        )
        lines += [line for line in told if line not in lines]
    return lines


def _check_cluster(filesystem: Filesystem, config: BrokerConfig, cluster_id: str) -> None:
    for path in (*config.log_dirs, config.metadata_log_dir):
        file = f"{path}/{META_PROPERTIES}"
        if filesystem.exists(file):
            known = MetaProperties.decode(filesystem.read(file)).cluster_id
            if known != cluster_id:
                raise FormatRefused(f"{path} is of the cluster {known}, not of {cluster_id}.")


def _scram_records(texts: Iterable[str], level: int, chance: Chance) -> list[MetadataRecord]:
    """The passwords that users have from the beginning."""
    entries = [parse_scram(text, chance) for text in texts]
    if entries and not versions.scram_supported(level):
        raise FormatRefused("SCRAM is only supported in metadata.version 3.5-IV2 or later.")
    return [
        scram_record(
            entry.name, entry.mechanism, entry.salted_password, entry.salt, entry.iterations
        )
        for entry in entries
    ]


def _check_quorum(config: BrokerConfig, *, dynamic: bool, names_voters: bool) -> None:
    if config.controller_quorum_voters and names_voters:
        raise FormatRefused(
            "You cannot specify controller.quorum.voters and format the node with "
            "--initial-controllers or --standalone. If you want to use dynamic quorum, please "
            "remove controller.quorum.voters and specify controller.quorum.bootstrap.servers "
            "instead."
        )
    if config.is_controller and not config.controller_quorum_voters and not dynamic:
        raise FormatRefused(
            "Because controller.quorum.voters is not set on this controller, you must specify one "
            f"of the following: {_FLAGS}."
        )


def _metadata_version(release_version: str | None) -> int:
    if release_version is None:
        return versions.LATEST_METADATA_VERSION
    try:
        return versions.metadata_version_from_text(release_version)
    except ValueError as error:
        raise FormatRefused(str(error)) from error


def _feature_levels(level: int, wanted: Mapping[str, int], *, dynamic: bool) -> dict[str, int]:
    """The levels to begin with, metadata.version first."""
    supported = {name for name in versions.SUPPORTED_FEATURES if name != versions.METADATA_VERSION}
    levels = versions.default_feature_levels(level)
    for name, each in wanted.items():
        if name == versions.METADATA_VERSION:
            raise FormatRefused(
                "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
            )
        if name not in supported:
            raise FormatRefused(
                f"Unsupported feature: {name}. Supported features are: "
                f"{', '.join(sorted(supported))}"
            )
        low, high = versions.SUPPORTED_FEATURES[name]
        if not low <= each <= high:
            raise FormatRefused(f"No feature:{name} with feature level {each}")
        levels[name] = each
    kraft_version = levels.pop(versions.KRAFT_VERSION, None)
    if kraft_version == 0 and dynamic:
        raise FormatRefused(
            f"Cannot set kraft.version to 0 if controller.quorum.voters is empty and one of the "
            f"flags {_FLAGS} is used. For dynamic controllers support, try removing the --feature "
            "flag for kraft.version."
        )
    if kraft_version and not dynamic:
        raise FormatRefused(
            f"Cannot set kraft.version to {kraft_version} unless controller.quorum.voters is empty "
            f"and one of the flags {_FLAGS} is used. For dynamic controllers support, try using "
            f"one of {_FLAGS} and removing controller.quorum.voters."
        )
    for name, each in levels.items():
        needed = versions.FEATURE_DEPENDENCIES.get((name, each), 0)
        if level < needed:
            raise FormatRefused(
                f"{name} could not be set to {each} because it depends on metadata.version "
                f"level {needed}"
            )
    kept = {name: each for name, each in sorted(levels.items()) if each > 0}
    return {versions.METADATA_VERSION: level, **kept}


def _unformatted(
    filesystem: Filesystem, config: BrokerConfig, *, ignore_formatted: bool
) -> list[str]:
    """Directories to format, that of the metadata log last."""
    wanted = [path for path in config.log_dirs if path != config.metadata_log_dir]
    wanted.append(config.metadata_log_dir)
    left = []
    for path in wanted:
        if not filesystem.exists(f"{path}/{META_PROPERTIES}"):
            left.append(path)
        elif not ignore_formatted:
            raise FormatRefused(
                f"Log directory {path} is already formatted. Use --ignore-formatted to ignore this "
                "directory and format the others."
            )
    return left


def _plan(
    config: BrokerConfig,
    path: str,
    voters: VoterSet | None,
    *,
    standalone: bool,
    chance: Chance,
) -> _Plan:
    directory_id = random_uuid(chance)
    if path != config.metadata_log_dir:
        return _Plan(path, "data directory", directory_id, None)
    if standalone:
        voters = VoterSet([this_voter(config, directory_id)])
    if voters is None:
        return _Plan(path, "metadata directory", directory_id, None)
    for voter in voters:
        if voter.key.node_id == config.node_id:
            directory_id = voter.key.directory_id
            return _Plan(path, "dynamic metadata voter directory", directory_id, voters)
    return _Plan(path, "dynamic metadata directory", directory_id, None)


def this_voter(config: BrokerConfig, directory_id: bytes) -> VoterNode:
    """This controller as others reach it."""
    names = [name.upper() for name in config.controller_listener_names]
    advertised = [each for each in config.advertised_listeners if each.name in names]
    endpoints = tuple(
        VoterEndpoint(each.name, each.host or "localhost", each.port)
        for each in advertised or config.controller_listeners
    )
    if not endpoints:
        raise FormatRefused("No controller listeners found.")
    return VoterNode(ReplicaKey(config.node_id, directory_id), endpoints)


def _initial_voters(text: str, listener_name: str) -> VoterSet:
    """``id@host:port:directory, ...`` as voters."""
    voters: dict[int, VoterNode] = {}
    for each in filter(None, (part.strip() for part in text.split(","))):
        match = _VOTER.fullmatch(each)
        if match is None:
            raise FormatRefused(f"Not a controller as id@host:port:directory-id: {each}")
        node_id, host, port = int(match[1]), match[2].strip("[]"), int(match[3])
        if node_id in voters:
            raise FormatRefused(f"Node id {node_id} was specified more than once.")
        if port > 65535:
            raise FormatRefused(f"Invalid port {port} in dynamic voter string.")
        key = ReplicaKey(node_id, uuid_from_text(match[4]))
        voters[node_id] = VoterNode(key, (VoterEndpoint(listener_name, host, port),))
    if not voters:
        raise FormatRefused("No voters given.")
    return VoterSet(voters.values())


def _format(
    filesystem: Filesystem,
    plan: _Plan,
    meta: MetaProperties,
    records: Iterable[MetadataRecord],
    now_ms: int,
) -> None:
    _make_durably(filesystem, plan.path)
    values = [encode_record(record, 0) for record in records]
    bootstrap = container(values, epoch=0, now_ms=now_ms, last_contained_log_timestamp=0)
    filesystem.write_atomically(f"{plan.path}/{BOOTSTRAP_CHECKPOINT}", b"".join(bootstrap))
    if plan.voters is not None:
        directory = metadata_directory(plan.path)
        filesystem.make_directory(directory)
        filesystem.sync_directory(plan.path)
        snapshot = container(
            (),
            epoch=0,
            now_ms=now_ms,
            last_contained_log_timestamp=now_ms,
            voters=plan.voters.to_record(),
            kraft_version=1,
        )
        SnapshotStore(filesystem, directory).write(BOOTSTRAP_SNAPSHOT, snapshot)
        filesystem.sync_directory(plan.path)
    filesystem.write_atomically(f"{plan.path}/{META_PROPERTIES}", meta.encode())
    filesystem.sync_directory(plan.path.rpartition("/")[0] or "/")


def _described(levels: Mapping[str, int]) -> str:
    """The bootstrap records in the words of Apache's tool."""
    records = ", ".join(
        f"ApiMessageAndVersion(FeatureLevelRecord(name='{name}', featureLevel={level})"
        " at version 0)"
        for name, level in levels.items()
    )
    level = levels[versions.METADATA_VERSION]
    return (
        f"BootstrapMetadata(records=[{records}], metadataVersionLevel={level}, "
        "source=format command)"
    )


def _make_durably(filesystem: Filesystem, path: str) -> None:
    """Make a directory; the names of parents that are made with it are synced too."""
    made = [path]
    while (parent := made[-1].rpartition("/")[0]) and not filesystem.exists(parent):
        made.append(parent)
    filesystem.make_directory(path)
    for each in made:
        filesystem.sync_directory(each.rpartition("/")[0] or "/")
