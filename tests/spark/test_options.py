"""The options of spark-sql-kafka, by its names and meanings; ours beside them; others refused."""

import pickle

import pytest

from ottla.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from ottla.common.topic_partition import TopicPartition
from ottla.spark.errors import BadOption
from ottla.spark.source.offsets import AtTimestamp, AtTimestamps, Everywhere, OfGroup, Specific
from ottla.spark.source.options import SPLIT_BYTES, SourceOptions, Subscription

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}
T = {**SERVERS, "subscribe": "t"}


def refused(options: dict[str, str], *, streaming: bool = False) -> str:
    with pytest.raises(BadOption) as caught:
        SourceOptions.parse(options, streaming=streaming)
    return str(caught.value)


def test_defaults_are_the_connectors() -> None:
    batch, stream = SourceOptions.parse(T), SourceOptions.parse(T, streaming=True)
    assert (batch.starting, batch.ending) == (Everywhere(EARLIEST), Everywhere(LATEST))
    assert stream.starting == Everywhere(LATEST)
    assert batch.fail_on_data_loss
    assert stream.trigger_delay_max_ms == 15 * 60_000
    assert (stream.retries, stream.retry_interval_ms) == (3, 1_000)
    assert (batch.bytes_per_partition_max, stream.bytes_per_partition_max) == (SPLIT_BYTES, None)
    assert pickle.loads(pickle.dumps(batch)) == batch


def test_names_are_the_same_in_any_case() -> None:
    options = {
        "KAFKA.bootstrap.SERVERS": "a:1",
        "SubscribePattern": "t.*",
        "MINPARTITIONS": "7",
        "kafka.isolation.level": "read_committed",
        "maxtriggerdelay": "30s",
        "maxBytesPerTrigger": "64m",
        "fetchoffset.numretries": "0",
    }
    parsed = SourceOptions.parse(options, streaming=True)
    assert parsed.kafka.bootstrap_servers == "a:1"
    assert parsed.kafka.isolation_level == READ_COMMITTED
    assert parsed.subscription == Subscription(pattern="t.*")
    assert (parsed.min_partitions, parsed.trigger_delay_max_ms) == (7, 30_000)
    assert (parsed.bytes_per_trigger_max, parsed.retries) == (64 << 20, 0)


def test_exactly_one_subscription_is_given() -> None:
    assert "one of the options subscribe, subscribePattern, assign must be given" in refused(
        SERVERS
    )
    assert "exclude each other" in refused({**T, "assign": '{"t":[0]}'})
    assert "no topic" in refused({**SERVERS, "subscribe": " , "})
    assert "no regular expression" in refused({**SERVERS, "subscribePattern": "("})
    parsed = SourceOptions.parse({**SERVERS, "assign": '{"t":[1,0],"a":[2]}'})
    assert parsed.subscription.partitions == (
        TopicPartition("a", 2),
        TopicPartition("t", 0),
        TopicPartition("t", 1),
    )
    assert "expected" in refused({**SERVERS, "assign": '{"t":0}'})
    assert SourceOptions.parse({**SERVERS, "subscribe": "a, b,a"}).subscription.topics == (
        "a",
        "b",
    )


def test_one_time_goes_before_times_and_times_before_offsets() -> None:
    offsets = {"startingOffsets": '{"t":{"0":23,"1":-2}}'}
    times = {"startingOffsetsByTimestamp": '{"t":{"0":1000}}'}
    one = {"startingTimestamp": "500"}
    zero, first = TopicPartition("t", 0), TopicPartition("t", 1)
    assert SourceOptions.parse({**T, **offsets}).starting == Specific(((zero, 23), (first, -2)))
    assert SourceOptions.parse({**T, **offsets, **times}).starting == AtTimestamps(((zero, 1000),))
    assert SourceOptions.parse({**T, **offsets, **times, **one}).starting == AtTimestamp(500)


def test_a_whole_topic_may_be_named_instead_of_its_partitions() -> None:
    parsed = SourceOptions.parse({**T, "startingOffsets": '{"t":"Earliest","u":{"0":1}}'})
    assert parsed.starting == Specific(((TopicPartition("u", 0), 1),), (("t", EARLIEST),))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"startingOffsets": "latest"}, "can't be latest"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "t-0 can't be latest"),
        ({"endingOffsets": "earliest"}, "can't be earliest"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "t-0 can't be earliest"),
        ({"endingOffsets": "group"}, "startingOffsets only"),
        ({"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":8}}'}, "behind"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "-3 is no offset of t-0"),
        ({"startingOffsets": "early"}, "expected JSON"),
        ({"startingOffsets": '{"t":{"zero":1}}'}, "is no number"),
        ({"startingOffsets": '{"t":{"0":true}}'}, "is no number"),
        ({"startingTimestamp": "yesterday"}, "expected a number"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "-1 is no time of t-0"),
        ({"startingOffsetsByTimestampStrategy": "earliest"}, "error or latest"),
        ({"startingOffsets": "group"}, "commitGroup"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"maxTriggerDelay": "soon"}, "30s or 15m"),
        ({"maxBytesPerTrigger": "0"}, "64m or 1g"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "above"),
        ({"readFrom": "remote"}, "name the remote store"),
        ({"readFrom": "disk"}, "auto or broker"),
        ({"subscribe": "t", "startingOffset": "earliest"}, "did you mean startingOffsets?"),
        ({"bootstrap.servers": "x:1"}, "did you mean kafka.bootstrap.servers?"),
        ({"kafka.auto.offset.reset": "latest"}, "startingOffsets"),
        ({"kafka.enable.auto.commit": "true"}, "commitGroup"),
        ({"kafka.value.deserializer": "x"}, "bytes"),
        ({"kafka.isolation.lvel": "x"}, "did you mean kafka.isolation.level?"),
        ({"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
        ({"kafka.sasl.mechanis": "PLAIN"}, "did you mean kafka.sasl.mechanism?"),
        ({"kafka.sasl.kerberos.kinit.cmd": "x"}, "there is no such setting"),
        ({"kafka.security.protocol": "TLS"}, "TLS is not one of PLAINTEXT, SSL"),
        ({"kafka.security.protocol": "SASL_SSL"}, "needs sasl.jaas.config"),
        ({"kafka.fetch.max.bytes": "many"}, "expected a number"),
    ],
)
def test_what_cannot_be_meant_is_refused_by_name(options: dict[str, str], said: str) -> None:
    message = refused({**T, **options})
    assert said in message
    assert any(name in message for name in options)


def test_a_stream_has_no_end() -> None:
    for name in ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"):
        value = "5" if name == "endingTimestamp" else '{"t":{"0":5}}'
        assert "no end" in refused({**T, name: value}, streaming=True)


def test_settings_of_consumers_that_mean_nothing_here_are_taken() -> None:
    options = {"kafka.max.poll.records": "5", "groupIdPrefix": "x", "kafka.group.id": "g"}
    parsed = SourceOptions.parse({**T, **options, "startingOffsets": "group"})
    assert (parsed.starting, parsed.group) == (OfGroup(), "g")
    assert "bootstrap.servers must be given" in refused({"subscribe": "t"})
