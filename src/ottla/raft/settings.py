"""What a node of the quorum is told about itself and about how patient to be."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ottla.config.broker import BrokerConfig
from ottla.raft.log import metadata_directory
from ottla.raft.voters import VoterEndpoint

REPLAY_BYTES: Final = 256 * 1024
"""Some 30 ms."""


class RaftSettings(NamedTuple):
    directory: str
    """The directory of ``__cluster_metadata-0``."""
    election_timeout_ms: int = 1_000
    fetch_timeout_ms: int = 2_000
    request_timeout_ms: int = 2_000
    retry_backoff_ms: int = 20
    election_backoff_max_ms: int = 1_000
    fetch_bytes_max: int = 1 << 20
    snapshot_bytes_max: int = 1 << 20
    replay_bytes: int = REPLAY_BYTES
    """What is replayed in one turn."""
    cluster_id: str = ""
    listener_name: str = ""
    """Of the listener at which controllers talk to one another."""
    endpoints: tuple[VoterEndpoint, ...] = ()
    """Where this node, as a controller, is to be found; none for a broker."""
    bootstrap_servers: tuple[tuple[str, int], ...] = ()
    auto_join: bool = False

    @property
    def fetch_wait_ms(self) -> int:
        """Of the time after which a silent leader is given up; Kafka's 500 ms by default."""
        return self.fetch_timeout_ms // 4

    def at(self, endpoints: Sequence[VoterEndpoint]) -> "RaftSettings":
        """With our own endpoints; our own address is no bootstrap server of ours."""
        own = {(each.host, each.port) for each in endpoints}
        others = tuple(server for server in self.bootstrap_servers if server not in own)
        return self._replace(endpoints=tuple(endpoints), bootstrap_servers=others)


def raft_settings(config: BrokerConfig, cluster_id: str) -> RaftSettings:
    return RaftSettings(
        directory=metadata_directory(config.metadata_log_dir),
        election_timeout_ms=config.controller_quorum_election_timeout_ms,
        fetch_timeout_ms=config.controller_quorum_fetch_timeout_ms,
        request_timeout_ms=config.controller_quorum_request_timeout_ms,
        retry_backoff_ms=config.controller_quorum_retry_backoff_ms,
        election_backoff_max_ms=config.controller_quorum_election_backoff_max_ms,
        fetch_bytes_max=config.controller_quorum_fetch_max_bytes,
        snapshot_bytes_max=config.controller_quorum_fetch_snapshot_max_bytes,
        replay_bytes=min(REPLAY_BYTES, config.controller_quorum_fetch_max_bytes),
        cluster_id=cluster_id,
        listener_name=config.controller_listener_names[0],
        bootstrap_servers=tuple(
            (server.host, server.port) for server in config.controller_quorum_bootstrap_servers
        ),
        auto_join=config.controller_quorum_auto_join_enable,
    )
