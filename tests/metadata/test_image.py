"""Images change by replaying records, and share what did not change."""

import pytest
from tests.metadata.samples import (
    DIRECTORY,
    TOPIC_ID,
    full_image,
    image_of,
    partition,
    register_broker,
)

from ottla.common.identifiers import MIGRATING_DIRECTORY
from ottla.metadata.cache import MetadataCache
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import EMPTY_IMAGE, MetadataImage
from ottla.metadata.records import MetadataRecord, UnknownMetadataRecord
from ottla.metadata.topics import changed_partition, partition_from_record
from ottla.protocol.generated import metadata_records as r

OTHER_ID = bytes(15) + b"\x77"


def after(image: MetadataImage, *records: MetadataRecord) -> MetadataImage:
    delta = MetadataDelta(image)
    for record in records:
        delta.replay(record)
    return delta.apply(image.offset + len(records), 1)


def test_every_record_leaves_its_mark() -> None:
    image = full_image()
    assert image.features.metadata_version == 30
    assert image.features.finalized == {"group.version": 1}
    assert image.features.zk_migration_state == 1
    assert set(image.brokers) == {1}
    assert not image.brokers[1].fenced
    assert image.brokers[1].listeners["PLAINTEXT"].port == 9092
    assert image.controllers[1].listeners["CONTROLLER"].port == 9093
    assert set(image.topics.by_name) == {"t"}
    assert image.topics.by_id[TOPIC_ID] is image.topics.by_name["t"]
    assert image.configs_of(2, "t") == {"retention.ms": "1"}
    assert image.client_quotas == {(("user", "alice"),): {"producer_byte_rate": 10.5}}
    assert image.next_producer_id == 3000
    assert [acl.principal for acl in image.acls.values()] == ["User:bob"]
    assert set(image.scram) == {(1, "alice")}
    assert set(image.delegation_tokens) == {"x"}


def test_an_image_is_not_touched_by_the_delta_that_starts_from_it() -> None:
    image = full_image()
    before = full_image()
    after(
        image,
        r.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=3),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=None),
        r.RemoveTopicRecord(topic_id=TOPIC_ID),
        r.FeatureLevelRecord(name="group.version", feature_level=0),
        r.UnregisterBrokerRecord(broker_id=1, broker_epoch=7),
    )
    assert image == before


def test_what_does_not_change_is_shared_between_images() -> None:
    image = full_image()
    other = r.TopicRecord(name="other", topic_id=OTHER_ID)
    changed = after(image, other, partition(0, OTHER_ID))
    assert changed.topics.by_name["t"] is image.topics.by_name["t"]
    assert changed.brokers is image.brokers
    assert changed.configs is image.configs
    assert changed.acls is image.acls
    untouched = after(image, r.NoOpRecord())
    assert untouched.topics is image.topics


def test_a_partition_change_that_names_a_leader_begins_a_new_leader_epoch() -> None:
    old = partition_from_record(partition(), {})
    new = changed_partition(old, r.PartitionChangeRecord(leader=old.leader))
    assert (new.leader_epoch, new.partition_epoch) == (old.leader_epoch + 1, 10)
    assert new.leader == old.leader


def test_a_partition_change_without_a_leader_keeps_the_leader_epoch() -> None:
    old = partition_from_record(partition(), {})
    new = changed_partition(old, r.PartitionChangeRecord(isr=[1, 2, 3], leader_recovery_state=1))
    assert (new.leader_epoch, new.partition_epoch) == (old.leader_epoch, 10)
    assert (new.isr, new.leader_recovery_state) == ((1, 2, 3), 1)
    assert (new.elr, new.last_known_elr, new.replicas) == (old.elr, old.last_known_elr, (1, 2, 3))


def test_directories_are_unknown_when_replicas_change_and_nothing_is_said_of_them() -> None:
    old = partition_from_record(partition(), {})
    assert old.directory_of(2) == DIRECTORY
    new = changed_partition(old, r.PartitionChangeRecord(replicas=[4, 5]))
    assert new.directories == (MIGRATING_DIRECTORY, MIGRATING_DIRECTORY)
    kept = changed_partition(old, r.PartitionChangeRecord(isr=[1], directories=[]))
    assert kept.directories == old.directories


def test_a_topic_that_is_made_again_under_its_name_is_another_topic() -> None:
    image = full_image()
    new = after(
        image,
        r.RemoveTopicRecord(topic_id=TOPIC_ID),
        r.TopicRecord(name="t", topic_id=OTHER_ID),
        partition(0, OTHER_ID),
    )
    assert set(new.topics.by_id) == {OTHER_ID}
    assert new.topics.by_name["t"].topic_id == OTHER_ID
    assert new.configs_of(2, "t") == {}, "the configs of the old topic went with it"


def test_a_delta_says_what_changed_and_what_is_gone() -> None:
    delta = MetadataDelta(full_image())
    delta.replay(r.TopicRecord(name="other", topic_id=OTHER_ID))
    delta.replay(partition(5, OTHER_ID))
    delta.replay(r.PartitionChangeRecord(partition_id=1, topic_id=TOPIC_ID, leader=2))
    changed = delta.topics.changed
    assert changed[OTHER_ID].base is None
    assert set(changed[TOPIC_ID].changed) == {1}
    before = changed[TOPIC_ID].before(1)
    assert before is not None
    assert before.leader == 1
    delta.replay(r.RemoveTopicRecord(topic_id=TOPIC_ID))
    delta.replay(r.RemoveTopicRecord(topic_id=OTHER_ID))
    assert set(delta.topics.deleted) == {TOPIC_ID}
    assert not delta.topics.changed


@pytest.mark.parametrize("name", ["t", ""])
def test_clearing_the_elr_is_a_change_of_the_partitions_that_have_one(name: str) -> None:
    image = image_of(
        [
            r.TopicRecord(name="t", topic_id=TOPIC_ID),
            partition(0),
            r.TopicRecord(name="none", topic_id=OTHER_ID),
            r.PartitionRecord(partition_id=0, topic_id=OTHER_ID, replicas=[1], partition_epoch=3),
        ]
    )
    cleared = after(image, r.ClearElrRecord(topic_name=name))
    changed = cleared.topics.by_name["t"].partitions[0]
    assert (changed.elr, changed.last_known_elr, changed.partition_epoch) == ((), (), 10)
    assert cleared.topics.by_name["none"] is image.topics.by_name["none"]


def test_a_broker_that_is_not_registered_cannot_change() -> None:
    for record in (
        r.FenceBrokerRecord(id=9, epoch=1),
        r.UnregisterBrokerRecord(broker_id=1, broker_epoch=6),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=8, fenced=1),
        r.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=2),
    ):
        with pytest.raises(ValueError, match="broker"):
            after(full_image(), record)


def test_records_of_what_does_not_exist_are_refused() -> None:
    for record in (
        partition(0, OTHER_ID),
        r.PartitionChangeRecord(partition_id=7, topic_id=TOPIC_ID),
        r.RemoveTopicRecord(topic_id=OTHER_ID),
        r.ClearElrRecord(topic_name="nope"),
        r.RemoveAccessControlEntryRecord(id=OTHER_ID),
        r.FeatureLevelRecord(name="metadata.version", feature_level=31),
    ):
        with pytest.raises(ValueError, match=r"\w"):
            after(full_image(), record)


def test_a_transaction_is_not_for_a_delta() -> None:
    with pytest.raises(UnknownMetadataRecord):
        after(EMPTY_IMAGE, r.BeginTransactionRecord())


def test_what_is_set_to_nothing_is_not_kept() -> None:
    user = r.EntityData(entity_type="user", entity_name="alice")
    image = after(
        full_image(),
        r.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value=None),
        r.ClientQuotaRecord(entity=[user], key="producer_byte_rate", remove=True),
        r.FeatureLevelRecord(name="group.version", feature_level=0),
        r.RemoveUserScramCredentialRecord(name="alice", mechanism=1),
        r.RemoveDelegationTokenRecord(token_id="x"),
    )
    assert (2, "t") not in image.configs
    assert image.client_quotas == {}
    assert image.features.finalized == {}
    assert image.scram == {}
    assert image.delegation_tokens == {}


def test_directories_of_a_broker() -> None:
    broker = image_of([register_broker()]).brokers[1]
    assert broker.has_online_directory(DIRECTORY)
    assert broker.has_online_directory(bytes(16)), "one that nobody knows yet is believed"
    assert not broker.has_online_directory(bytes(15) + b"\x02"), "a lost one is not"
    assert not broker.has_online_directory(b"of another .....")
    assert broker.can_take_replicas
    assert not broker._replace(cordoned_log_dirs=(DIRECTORY,)).can_take_replicas


def test_listeners_see_an_image_after_the_cache_has_it() -> None:
    cache = MetadataCache()
    seen: list[tuple[int, bool]] = []
    cache.on_image(lambda image, delta: seen.append((image.offset, bool(delta.topics))))
    delta = MetadataDelta(EMPTY_IMAGE)
    delta.replay(r.TopicRecord(name="t", topic_id=TOPIC_ID))
    image = delta.apply(5, 1)
    cache.publish(image, delta)
    assert cache.image is image
    assert seen == [(5, True)]
