"""The settings that hold: a broker goes on with what it can use of what the metadata log says."""

from dataclasses import replace

from ottla.config.broker import BrokerConfig
from ottla.config.changes import Resource
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.image import MetadataImage
from ottla.protocol.generated.metadata_records import ConfigRecord
from ottla.server.settings import Settings

FILE = BrokerConfig.from_properties(
    {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.listener.names": "CONTROLLER",
        "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
        "controller.quorum.bootstrap.servers": "localhost:9093",
        "log.cleaner.dedupe.buffer.size": str(3 << 20),
    }
)


def image(**configs: dict[str, str]) -> MetadataImage:
    """Settings of all brokers, of this one, or of topic t."""
    kinds = {
        "cluster": (Resource.BROKER, ""),
        "own": (Resource.BROKER, "1"),
        "topic": (Resource.TOPIC, "t"),
    }
    return replace(MetadataImage(), configs={kinds[name]: own for name, own in configs.items()})


def test_a_setting_that_fits_another_broker_alone_does_not_stop_this_one() -> None:
    settings = Settings(FILE)
    assert settings.load(image(cluster={"log.cleaner.threads": "3", "log.retention.ms": "7000"}))
    assert settings.broker.log_cleaner_threads == 1
    assert settings.topic("t").retention_ms == 7000
    settings = Settings(FILE)
    before = image()
    delta = MetadataDelta(before)
    for name, value in (("log.cleaner.threads", "3"), ("log.retention.ms", "7000")):
        record = ConfigRecord(
            resource_type=Resource.BROKER, resource_name="", name=name, value=value
        )
        delta.replay(record)
    changed, _ = settings.apply(delta.apply(1, 1, 0), delta)
    assert changed
    assert settings.broker.log_cleaner_threads == 1
    assert settings.broker.log_retention_ms == 7000


def test_a_topic_with_a_setting_that_is_refused_today_has_its_others() -> None:
    """Segments of 1 kB were allowed before Kafka 4.0."""
    settings = Settings(FILE)
    settings.load(image(topic={"segment.bytes": "1024", "retention.ms": "5", "no.such": "x"}))
    assert settings.topic("t").retention_ms == 5
    assert settings.topic("t").segment_bytes == 1 << 30
    assert settings.topic("other").retention_ms != 5
