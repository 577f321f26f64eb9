"""What is left of transactions for a reader of committed records, on Apache Kafka."""

import confluent_kafka
import pytest
from tests.client.conftest import NewTopicFixture
from tests.waiting import eventually

from ottla.client.consumer import Consumer
from ottla.client.offsets import EARLIEST
from ottla.common.topic_partition import TopicPartition

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("address", ["kafka"], indirect=True)
def test_a_reader_of_committed_records_sees_no_aborted_ones(
    address: str, new_topic: NewTopicFixture
) -> None:
    topic = new_topic()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "transactional.id": "client-test"}
    )
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        for _ in range(3):
            producer.produce(topic, b"%d" % number)
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    partition = TopicPartition(topic, 0)

    def values(isolation_level: str) -> list[int]:
        found: list[int] = []
        with Consumer(address, isolation_level=isolation_level) as consumer:
            consumer.assign({partition: EARLIEST})
            eventually(lambda: consumer.end_offsets([partition])[partition] == 24)
            while consumer.position(partition) < 24:
                records = consumer.poll(500).get(partition, [])
                found += [int(record.value or b"") for record in records]
        return found

    assert values("read_committed") == [0] * 3 + [2] * 3 + [4] * 3
    assert values("read_uncommitted") == [n for n in range(6) for _ in range(3)]
