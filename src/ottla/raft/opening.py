"""A node of the quorum as its server.properties wants it: for controllers and for brokers alike."""

from collections.abc import Callable

from ottla.common.chance import Chance
from ottla.common.environment import Scheduler
from ottla.config.broker import BrokerConfig
from ottla.raft.channel import RaftChannel
from ottla.raft.driver import RaftDriver
from ottla.raft.listener import RaftListener
from ottla.raft.log import MetadataLog
from ottla.raft.settings import raft_settings
from ottla.raft.voters import ReplicaKey, static_voters
from ottla.storage.files import Filesystem


def open_raft(
    config: BrokerConfig,
    *,
    cluster_id: str,
    directory_id: bytes,
    filesystem: Filesystem,
    scheduler: Scheduler,
    chance: Chance,
    listener: RaftListener,
    on_failure: Callable[[BaseException], None],
    channel: RaftChannel | None,
) -> RaftDriver:
    """A node of the quorum on the metadata log dir that ``config`` names, voter or observer."""
    voters = config.controller_quorum_voters
    names = config.controller_listener_names
    return RaftDriver(
        key=ReplicaKey(config.node_id, directory_id),
        settings=raft_settings(config, cluster_id),
        static_voters=static_voters(voters, names[0]) if voters else None,
        log=MetadataLog.open(filesystem, config.metadata_log_dir, config, scheduler.wall_ms()),
        filesystem=filesystem,
        scheduler=scheduler,
        chance=chance,
        listener=listener,
        on_failure=on_failure,
        channel=channel,
    )
