"""The first records of a new cluster, and what a controller must set right when it takes over."""

from collections.abc import Mapping, Sequence

from ottla.config.broker import BrokerConfig
from ottla.config.listeners import SECURITY_PROTOCOLS
from ottla.controller.configs import ConfigsManager
from ottla.controller.state import ControllerState
from ottla.metadata import versions
from ottla.metadata.brokers import Endpoint
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.controller_registration import (
    ControllerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.protocol.generated.metadata_records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
)


def activation_records(
    state: ControllerState,
    configs: ConfigsManager,
    bootstrap: list[MetadataRecord],
    transaction_offset: int | None,
) -> list[MetadataRecord]:
    """What a controller writes first: ``bootstrap`` into an empty log, in one transaction.

    A transaction that the controller before it left open is aborted; when that was the bootstrap,
    it is done again.
    """
    records: list[MetadataRecord] = []
    if transaction_offset is not None:
        records.append(AbortTransactionRecord(reason="Controller failover"))
    if state.image.features.metadata_version > 0:
        return records
    level = _level_of(bootstrap, versions.METADATA_VERSION)
    wanted = list(bootstrap)
    if _level_of(bootstrap, versions.ELIGIBLE_LEADER_REPLICAS_VERSION) > 0:
        wanted += configs.elr_records()
    if versions.transactions_supported(level):
        records.append(BeginTransactionRecord(name="Bootstrap records"))
        records += wanted
        records.append(EndTransactionRecord())
    else:
        records += wanted
    return records


def _level_of(records: list[MetadataRecord], feature: str) -> int:
    level = 0
    for record in records:
        if isinstance(record, FeatureLevelRecord) and record.name == feature:
            level = record.feature_level
    return level


def default_bootstrap() -> list[MetadataRecord]:
    """The features of a cluster whose directories were formatted without saying any."""
    level = versions.LATEST_METADATA_VERSION
    levels = {versions.METADATA_VERSION: level, **versions.default_feature_levels(level)}
    return [FeatureLevelRecord(name=name, feature_level=each) for name, each in levels.items()]


def controller_endpoints(config: BrokerConfig, ports: Mapping[str, int]) -> list[Endpoint]:
    """Where this controller is reached: advertised, or else where it listens."""
    names = {name.upper() for name in config.controller_listener_names}
    advertised = [each for each in config.advertised_listeners if each.name in names]
    return [
        Endpoint(
            each.name,
            each.host or "localhost",
            each.port or ports.get(each.name, 0),
            SECURITY_PROTOCOLS.index(each.security_protocol),
        )
        for each in advertised or config.controller_listeners
    ]


def registration_request(
    node_id: int, incarnation_id: bytes, endpoints: Sequence[Endpoint]
) -> ControllerRegistrationRequest:
    """This controller registers, so that others know where and what it is."""
    return ControllerRegistrationRequest(
        controller_id=node_id,
        incarnation_id=incarnation_id,
        listeners=[
            Listener(name=e.name, host=e.host, port=e.port, security_protocol=e.security_protocol)
            for e in endpoints
        ],
        features=[
            Feature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in versions.SUPPORTED_FEATURES.items()
        ],
    )
