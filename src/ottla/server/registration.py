"""What a broker says of itself when it registers."""

from typing import Final

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import SECURITY_PROTOCOLS, Listener
from ottla.metadata.versions import SUPPORTED_FEATURES
from ottla.protocol.generated.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
)
from ottla.protocol.generated.broker_registration import Listener as RegisteredListener

PROTOCOL_IDS: Final = {name: number for number, name in enumerate(SECURITY_PROTOCOLS)}


def registration_request(
    config: BrokerConfig,
    *,
    cluster_id: str,
    incarnation_id: bytes,
    ports: dict[str, int],
    log_dirs: list[bytes],
    previous_broker_epoch: int,
) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=cluster_id,
        incarnation_id=incarnation_id,
        listeners=[_listener(each, ports) for each in config.advertised_broker_listeners],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in SUPPORTED_FEATURES.items()
        ],
        rack=config.broker_rack,
        log_dirs=log_dirs,
        previous_broker_epoch=previous_broker_epoch,
    )


def _listener(listener: Listener, ports: dict[str, int]) -> RegisteredListener:
    """With port 0, the port that the system chose is advertised."""
    return RegisteredListener(
        name=listener.name,
        host=listener.host,
        port=listener.port or ports[listener.name],
        security_protocol=PROTOCOL_IDS[listener.security_protocol],
    )
