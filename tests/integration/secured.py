"""Nodes that speak SASL_SSL with everybody, ours or Apache Kafka's, and what their clients need."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.security import certificates
from tools.kafka_peer.broker_process import BrokerProcess, answers_over_tls
from tools.kafka_peer.cluster_process import ClusterProcess

ADMIN: Final = "admin"
_SECURITY: Final = "org.apache.kafka.common.security"
AUTHORIZER: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": f"User:{ADMIN}",
}
MODULES: Final = {
    "PLAIN": f"{_SECURITY}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_SECURITY}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_SECURITY}.scram.ScramLoginModule",
}
_USERS: Final = (
    f'{MODULES["PLAIN"]} required username="{ADMIN}" password="{ADMIN}-secret" '
    f'user_{ADMIN}="{ADMIN}-secret" user_alice="alice-secret";'
)


def in_one_line(settings: Mapping[str, str]) -> dict[str, str]:
    """As a file of properties has it."""
    return {key: text.replace("\n", "\\n") for key, text in settings.items()}


def logins(listener: str) -> dict[str, str]:
    """How people log in at a listener."""
    prefix = f"listener.name.{listener.lower()}"
    return {
        f"{prefix}.{name.lower()}.sasl.jaas.config": _USERS
        if name == "PLAIN"
        else f"{module} required;"
        for name, module in MODULES.items()
    }


STORES: Final = {
    **in_one_line(certificates.settings()),
    "sasl.enabled.mechanisms": ",".join(MODULES),
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
}


def secured(broker: BrokerProcess) -> dict[str, str]:
    """SASL_SSL on both listeners of a node."""
    return {
        "listeners": f"SECURE://127.0.0.1:{broker.port},"
        f"CONTROLLER://127.0.0.1:{broker.controller_port}",
        "listener.security.protocol.map": "SECURE:SASL_SSL,CONTROLLER:SASL_SSL",
        "inter.broker.listener.name": "SECURE",
        **STORES,
        **logins("SECURE"),
        **logins("CONTROLLER"),
        **AUTHORIZER,
    }


def secure(cluster: ClusterProcess) -> ClusterProcess:
    for broker in cluster.brokers.values():
        broker.settings = {**broker.settings, **secured(broker)}
        broker.answers = answers_over_tls
    return cluster


def librdkafka(servers: str, user: str, mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_SSL",
        "ssl.ca.pem": certificates.authority().certificate,
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": f"{user}-secret",
    }


def command_config(directory: Path, user: str, mechanism: str = "PLAIN") -> str:
    """The file that Apache's tools are given."""
    module = MODULES[mechanism]
    given = {
        "security.protocol": "SASL_SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": certificates.authority().certificate,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{user}-secret";',
    }
    file = directory / f"{user}-{mechanism}.properties"
    lines = (f"{key}={text}\n" for key, text in in_one_line(given).items())
    file.write_text("".join(lines))
    return str(file)
