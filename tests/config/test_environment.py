"""KAFKA_ variables mean what they mean in Apache's container image."""

import pytest

from ottla.config.environment import (
    DEFAULT_CLUSTER_ID,
    cluster_id,
    root_level,
    setting_name,
    settings_from_environment,
)


def no_secrets(path: str) -> str:
    raise AssertionError(f"{path} is not to be read")


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_NODE_ID", "node.id"),
        ("KAFKA_LOG_RETENTION_MS", "log.retention.ms"),
        (
            "KAFKA_LISTENER_NAME_BROKER_PLAIN_SASL_JAAS_CONFIG",
            "listener.name.broker.plain.sasl.jaas.config",
        ),
        ("KAFKA_A__B", "a_b"),
        ("KAFKA_LISTENER_NAME_X_SCRAM___SHA___256_SASL", "listener.name.x.scram-sha-256.sasl"),
    ],
)
def test_the_name_of_a_variable_becomes_that_of_a_setting(variable: str, name: str) -> None:
    assert setting_name(variable) == name


def test_only_settings_are_taken() -> None:
    environment = {"KAFKA_NODE_ID": "3", "KAFKA_HEAP_OPTS": "-Xmx1G", "PATH": "/bin"}
    assert settings_from_environment(environment, no_secrets) == {"node.id": "3"}


def test_listeners_follow_the_advertised_ones() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "PLAINTEXT://broker:9092,EXTERNAL://localhost:9093"
    }
    settings = settings_from_environment(environment, no_secrets)
    assert settings["listeners"] == "PLAINTEXT://0.0.0.0:9092,EXTERNAL://0.0.0.0:9093"
    environment["KAFKA_LISTENERS"] = "PLAINTEXT://:1"
    assert settings_from_environment(environment, no_secrets)["listeners"] == "PLAINTEXT://:1"


def test_stores_and_their_passwords_come_from_the_directory_of_secrets() -> None:
    environment = {
        "KAFKA_ADVERTISED_LISTENERS": "SSL://broker:9093",
        "KAFKA_SSL_KEYSTORE_FILENAME": "broker.jks",
        "KAFKA_SSL_KEYSTORE_CREDENTIALS": "store",
        "KAFKA_SSL_KEY_CREDENTIALS": "key",
    }
    settings = settings_from_environment(environment, lambda path: f"<{path}>\n")
    del settings["advertised.listeners"], settings["listeners"]
    assert settings == {
        "ssl.keystore.location": "/etc/kafka/secrets/broker.jks",
        "ssl.keystore.password": "</etc/kafka/secrets/store>",
        "ssl.key.password": "</etc/kafka/secrets/key>",
    }


def test_the_cluster_id_and_the_level_have_variables_of_their_own() -> None:
    assert cluster_id({}) == DEFAULT_CLUSTER_ID
    assert cluster_id({"CLUSTER_ID": "x"}) == "x"
    assert root_level({"KAFKA_LOG4J_ROOT_LOGLEVEL": "DEBUG"}) == "DEBUG"
    assert root_level({}) is None
