"""Records of every type, and images made of records."""

from collections.abc import Iterable

from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated import metadata_records as r

TOPIC_ID = bytes(range(16))
DIRECTORY = b"directory of one"
INCARNATION = b"incarnation one!"
ACL_ID = b"the id of an ACL"


def register_broker(broker_id: int = 1, epoch: int = 7, **fields: object) -> r.RegisterBrokerRecord:
    record = r.RegisterBrokerRecord(
        broker_id=broker_id,
        incarnation_id=INCARNATION,
        broker_epoch=epoch,
        end_points=[r.BrokerEndpoint(name="PLAINTEXT", host="localhost", port=9092)],
        features=[
            r.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack="r1",
        fenced=True,
        log_dirs=[DIRECTORY],
    )
    for name, value in fields.items():
        setattr(record, name, value)
    return record


def partition(partition_id: int = 0, topic_id: bytes = TOPIC_ID) -> r.PartitionRecord:
    return r.PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=[1, 2, 3],
        isr=[1, 2],
        leader=1,
        leader_epoch=4,
        partition_epoch=9,
        directories=[DIRECTORY] * 3,
        eligible_leader_replicas=[3],
        last_known_elr=[2],
    )


def one_of_each() -> list[MetadataRecord]:
    """A row of records that can be replayed in this order, every type among them but aborts."""
    user = r.EntityData(entity_type="user", entity_name="alice")
    return [
        r.FeatureLevelRecord(name="metadata.version", feature_level=30),
        r.BeginTransactionRecord(name="all"),
        r.FeatureLevelRecord(name="group.version", feature_level=1),
        register_broker(),
        register_broker(2, 8, log_dirs=[b"another direct.."]),
        r.UnfenceBrokerRecord(id=1, epoch=7),
        r.FenceBrokerRecord(id=1, epoch=7),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1),
        r.UnregisterBrokerRecord(broker_id=2, broker_epoch=8),
        r.RegisterControllerRecord(
            controller_id=1,
            incarnation_id=INCARNATION,
            end_points=[r.ControllerEndpoint(name="CONTROLLER", host="localhost", port=9093)],
            features=[r.ControllerFeature(name="kraft.version", max_supported_version=1)],
        ),
        r.TopicRecord(name="t", topic_id=TOPIC_ID),
        partition(0),
        partition(1),
        r.PartitionChangeRecord(partition_id=0, topic_id=TOPIC_ID, leader=2, isr=[2]),
        r.ClearElrRecord(topic_name="t"),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="1"),
        r.ConfigRecord(resource_type=4, resource_name="", name="log.retention.ms", value="2"),
        r.TopicRecord(name="gone", topic_id=bytes(16)[:-1] + b"\x09"),
        r.RemoveTopicRecord(topic_id=bytes(16)[:-1] + b"\x09"),
        r.ClientQuotaRecord(entity=[user], key="producer_byte_rate", value=10.5, remove=False),
        r.ProducerIdsRecord(broker_id=1, broker_epoch=7, next_producer_id=3000),
        r.AccessControlEntryRecord(
            id=ACL_ID,
            resource_type=2,
            resource_name="t",
            pattern_type=3,
            principal="User:bob",
            host="*",
            operation=3,
            permission_type=3,
        ),
        r.AccessControlEntryRecord(id=TOPIC_ID, resource_name="x"),
        r.RemoveAccessControlEntryRecord(id=TOPIC_ID),
        r.UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
        ),
        r.UserScramCredentialRecord(name="alice", mechanism=2, iterations=4096),
        r.RemoveUserScramCredentialRecord(name="alice", mechanism=2),
        r.DelegationTokenRecord(
            owner="User:a", requester="User:b", renewers=["User:c"], max_timestamp=9, token_id="x"
        ),
        r.DelegationTokenRecord(owner="User:a", requester="User:b", token_id="y"),
        r.RemoveDelegationTokenRecord(token_id="y"),
        r.ZkMigrationStateRecord(zk_migration_state=1),
        r.NoOpRecord(),
        r.EndTransactionRecord(),
    ]


def image_of(records: Iterable[MetadataRecord], offset: int = 0, epoch: int = 0) -> MetadataImage:
    """What records without transactions make of nothing."""
    delta = MetadataDelta(EMPTY_IMAGE)
    for record in records:
        delta.replay(record)
    return delta.apply(offset, epoch)


def full_image() -> MetadataImage:
    outside = (r.BeginTransactionRecord, r.EndTransactionRecord)
    return image_of(record for record in one_of_each() if not isinstance(record, outside))
