"""What records make of an image: replayed one by one, then applied as a new image.

A delta also answers what changed, which is what listeners look at: a broker with ten thousand
partitions must not look at all of them because one has a new leader.
"""

from collections.abc import Callable
from typing import Any, Final

from ottla.config.changes import Resource
from ottla.metadata.acls import AclsDelta
from ottla.metadata.brokers import BrokersDelta
from ottla.metadata.client_quotas import ClientQuotasDelta
from ottla.metadata.configs import ConfigsDelta
from ottla.metadata.delegation_tokens import DelegationTokensDelta
from ottla.metadata.features import FeaturesDelta
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord, UnknownMetadataRecord
from ottla.metadata.scram import ScramDelta
from ottla.metadata.topics import TopicsDelta
from ottla.protocol.generated import metadata_records as r


class MetadataDelta:
    """The change from ``base``; empty until records are replayed."""

    __slots__ = (
        "acls",
        "base",
        "brokers",
        "client_quotas",
        "configs",
        "delegation_tokens",
        "features",
        "next_producer_id",
        "scram",
        "topics",
    )

    def __init__(self, base: MetadataImage) -> None:
        self.base = base
        self.features = FeaturesDelta(base.features)
        self.brokers = BrokersDelta(base.brokers, base.controllers)
        self.topics = TopicsDelta(base.topics)
        self.configs = ConfigsDelta(base.configs)
        self.client_quotas = ClientQuotasDelta(base.client_quotas)
        self.next_producer_id = base.next_producer_id
        self.acls = AclsDelta(base.acls)
        self.scram = ScramDelta(base.scram)
        self.delegation_tokens = DelegationTokensDelta(base.delegation_tokens)

    def replay(self, record: MetadataRecord) -> None:
        replay = _REPLAY.get(type(record))
        if replay is None:
            raise UnknownMetadataRecord(f"no replay for {type(record).__name__}")
        replay(self, record)

    def replay_remove_topic(self, record: r.RemoveTopicRecord) -> None:
        name = self.topics.replay_remove_topic(record)
        self.configs.forget((Resource.TOPIC, name))

    def replay_producer_ids(self, record: r.ProducerIdsRecord) -> None:
        self.next_producer_id = record.next_producer_id

    def replay_zk_migration_state(self, record: r.ZkMigrationStateRecord) -> None:
        self.features.zk_migration_state = record.zk_migration_state

    def apply(self, offset: int, epoch: int, timestamp_ms: int = 0) -> MetadataImage:
        return MetadataImage(
            offset=offset,
            epoch=epoch,
            timestamp_ms=timestamp_ms,
            features=self.features.apply(),
            brokers=self.brokers.apply(),
            controllers=self.brokers.apply_controllers(),
            topics=self.topics.apply(),
            configs=self.configs.apply(),
            client_quotas=self.client_quotas.apply(),
            next_producer_id=self.next_producer_id,
            acls=self.acls.apply(),
            scram=self.scram.apply(),
            delegation_tokens=self.delegation_tokens.apply(),
        )


_Replay = Callable[[MetadataDelta, Any], object]

_REPLAY: Final[dict[type, _Replay]] = {
    r.TopicRecord: lambda d, record: d.topics.replay_topic(record),
    r.PartitionRecord: lambda d, record: d.topics.replay_partition(record),
    r.PartitionChangeRecord: lambda d, record: d.topics.replay_partition_change(record),
    r.RemoveTopicRecord: MetadataDelta.replay_remove_topic,
    r.ClearElrRecord: lambda d, record: d.topics.replay_clear_elr(record),
    r.ConfigRecord: lambda d, record: d.configs.replay(record),
    r.RegisterBrokerRecord: lambda d, record: d.brokers.replay_register(record),
    r.UnregisterBrokerRecord: lambda d, record: d.brokers.replay_unregister(record),
    r.FenceBrokerRecord: lambda d, record: d.brokers.replay_fence(record, fenced=True),
    r.UnfenceBrokerRecord: lambda d, record: d.brokers.replay_fence(record, fenced=False),
    r.BrokerRegistrationChangeRecord: lambda d, record: d.brokers.replay_change(record),
    r.RegisterControllerRecord: lambda d, record: d.brokers.replay_register_controller(record),
    r.FeatureLevelRecord: lambda d, record: d.features.replay(record),
    r.ZkMigrationStateRecord: MetadataDelta.replay_zk_migration_state,
    r.ProducerIdsRecord: MetadataDelta.replay_producer_ids,
    r.ClientQuotaRecord: lambda d, record: d.client_quotas.replay(record),
    r.AccessControlEntryRecord: lambda d, record: d.acls.replay(record),
    r.RemoveAccessControlEntryRecord: lambda d, record: d.acls.replay_remove(record),
    r.UserScramCredentialRecord: lambda d, record: d.scram.replay(record),
    r.RemoveUserScramCredentialRecord: lambda d, record: d.scram.replay_remove(record),
    r.DelegationTokenRecord: lambda d, record: d.delegation_tokens.replay(record),
    r.RemoveDelegationTokenRecord: lambda d, record: d.delegation_tokens.replay_remove(record),
    r.NoOpRecord: lambda _d, _record: None,
}
"""Begin, end and abort of metadata transactions are above this: see ``metadata.replay``."""
