"""What readers of committed records find in a topic, once no transaction is open any more."""

from tests.waiting import eventually

from ottla.client.consumer import Consumer
from ottla.client.offsets import EARLIEST
from ottla.client.security import UNSECURED, ClientSecurity
from ottla.common.topic_partition import TopicPartition
from ottla.records.record import Record


def committed_records(
    address: str, topic: str, security: ClientSecurity = UNSECURED
) -> dict[TopicPartition, list[Record]]:
    """All records of a topic, in their order."""
    eventually(
        lambda: (
            ends(address, topic, "read_committed", security)
            == ends(address, topic, security=security)
        )
    )
    found: dict[TopicPartition, list[Record]] = {}
    with Consumer(
        address, isolation_level="read_committed", fetch_wait_ms=20, security=security
    ) as consumer:
        partitions = consumer.partitions(topic)
        last = consumer.end_offsets(partitions)
        consumer.assign(dict.fromkeys(partitions, EARLIEST))
        while any(consumer.position(each) < last[each] for each in partitions):
            for partition, records in consumer.poll(1000).items():
                found.setdefault(partition, []).extend(records)
    return found


def committed_values(address: str, topic: str) -> list[bytes]:
    records = [each for some in committed_records(address, topic).values() for each in some]
    return sorted(each.value or b"" for each in records)


def visible_values(address: str, topic: str) -> list[bytes]:
    """What can be read now, whatever is open."""
    found: list[bytes] = []
    with Consumer(address, isolation_level="read_committed", fetch_wait_ms=20) as consumer:
        consumer.assign(dict.fromkeys(consumer.partitions(topic), EARLIEST))
        while polled := consumer.poll(100):
            found += [each.value or b"" for records in polled.values() for each in records]
    return sorted(found)


def ends(
    address: str,
    topic: str,
    level: str = "read_uncommitted",
    security: ClientSecurity = UNSECURED,
) -> dict[TopicPartition, int]:
    with Consumer(address, isolation_level=level, security=security) as consumer:
        return consumer.end_offsets(consumer.partitions(topic))
