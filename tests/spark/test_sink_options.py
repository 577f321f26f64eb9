"""The options of the sink: those of the connector and of Kafka's producer, each with its effect."""

import pickle

import pytest

from ottla.records.compression import ZSTD
from ottla.spark.errors import BadOption
from ottla.spark.sink.options import BATCH_BYTES, SinkOptions

HERE = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def test_options_are_those_of_the_connector_in_any_case_of_letters() -> None:
    options = SinkOptions.parse({**HERE, "TOPIC": " t ", "checkpointLocation": "/tmp/x"})
    assert options.topic == "t"
    assert not options.exactly_once
    assert options.batching.batch_bytes == BATCH_BYTES


def test_settings_of_the_producer_take_effect() -> None:
    options = SinkOptions.parse(
        {
            **HERE,
            "exactlyOnce": "true",
            "transactionalIdPrefix": "mine",
            "kafka.batch.size": "1000",
            "kafka.compression.type": "zstd",
            "kafka.compression.zstd.level": "-3",
            "kafka.max.request.size": "5000",
            "kafka.max.in.flight.requests.per.connection": "9",
            "kafka.transaction.timeout.ms": "70000",
            "kafka.delivery.timeout.ms": "80000",
            "kafka.max.block.ms": "90",
            "kafka.linger.ms": "5",
            "kafka.acks": "1",
        }
    )
    assert options.exactly_once
    assert options.transactional_id_prefix == "mine"
    assert options.batching == (1000, ZSTD, -3, 5000, 64 << 20)
    assert options.delivery == (5000, 5, 80_000, 90)
    assert options.transaction_timeout_ms == 70_000


def test_equal_options_are_equal_wherever_they_are() -> None:
    options = SinkOptions.parse({**HERE, "topic": "t"})
    assert {options: 1}[pickle.loads(pickle.dumps(options))] == 1


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({}, "kafka.bootstrap.servers must be given"),
        ({**HERE, "topics": "t"}, "topics is unknown; did you mean topic"),
        ({**HERE, "exactly_once": "true"}, "did you mean exactlyOnce"),
        ({**HERE, "topic": " "}, "no topic is named"),
        ({**HERE, "kafka.batch.sise": "1"}, "did you mean kafka.batch.size"),
        ({**HERE, "kafka.compression.type": "brotli"}, "one of none, gzip, snappy, lz4, zstd"),
        (
            {**HERE, "kafka.compression.type": "zstd", "kafka.compression.zstd.level": "x"},
            "a number",
        ),
        ({**HERE, "kafka.key.serializer": "x"}, "set the option keyFormat, or cast keys"),
        ({**HERE, "kafka.transactional.id": "x"}, "exactlyOnce and transactionalIdPrefix"),
        ({**HERE, "kafka.sasl.mechanis": "PLAIN"}, "did you mean kafka.sasl.mechanism?"),
        ({**HERE, "kafka.sasl.kerberos.kinit.cmd": "x"}, "there is no such setting"),
        ({**HERE, "kafka.security.protocol": "TLS"}, "TLS is not one of PLAINTEXT, SSL"),
        ({**HERE, "kafka.security.protocol": "SASL_SSL"}, "needs sasl.jaas.config"),
        ({**HERE, "kafka.acks": "2"}, "kafka.acks: expected all or"),
        ({**HERE, "exactlyOnce": "yes"}, "expected true or false"),
        (
            {**HERE, "kafka.transaction.timeout.ms": "3000000000"},
            "kafka.transaction.timeout.ms: expected a number from 1 to 2147483647",
        ),
        ({**HERE, "kafka.request.timeout.ms": "3000000000"}, "from 1 to 2147483647"),
    ],
)
def test_an_option_that_is_wrong_is_refused_by_name(given: dict[str, str], text: str) -> None:
    with pytest.raises(BadOption, match=text):
        SinkOptions.parse(given)
