"""Brokers and controllers that are registered in the cluster."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.common.identifiers import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
)
from ottla.protocol.generated.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)


class Endpoint(NamedTuple):
    """Where a listener of a node is reached."""

    name: str
    host: str
    port: int
    security_protocol: int


class VersionRange(NamedTuple):
    lowest: int
    highest: int


class BrokerImage(NamedTuple):
    node_id: int
    epoch: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    log_dirs: tuple[bytes, ...]
    cordoned_log_dirs: tuple[bytes, ...] | None = None
    """None until the broker has said anything about it."""
    is_migrating_zk_broker: bool = False

    @property
    def is_active(self) -> bool:
        """Whether it may lead partitions."""
        return not (self.fenced or self.in_controlled_shutdown)

    @property
    def can_take_replicas(self) -> bool:
        """Whether a log dir is left that is not cordoned."""
        cordoned = self.cordoned_log_dirs
        return not cordoned or not self.log_dirs or set(self.log_dirs) - set(cordoned) != set()

    def has_online_directory(self, directory: bytes) -> bool:
        """Whether a replica in ``directory`` can be served; what is unknown is believed."""
        if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
            return True
        if directory == LOST_DIRECTORY:
            return False
        return directory in self.log_dirs or not self.log_dirs


class ControllerImage(NamedTuple):
    node_id: int
    incarnation_id: bytes
    listeners: Mapping[str, Endpoint]
    features: Mapping[str, VersionRange]
    zk_migration_ready: bool = False


def broker_from_record(record: RegisterBrokerRecord) -> BrokerImage:
    return BrokerImage(
        node_id=record.broker_id,
        epoch=record.broker_epoch,
        incarnation_id=record.incarnation_id,
        listeners=_endpoints(record.end_points),
        features=_features(record.features),
        rack=record.rack,
        fenced=record.fenced,
        in_controlled_shutdown=record.in_controlled_shutdown,
        log_dirs=tuple(record.log_dirs),
        cordoned_log_dirs=_directories(record.cordoned_log_dirs),
        is_migrating_zk_broker=record.is_migrating_zk_broker,
    )


def broker_to_record(broker: BrokerImage, *, version: int) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=broker.node_id,
        is_migrating_zk_broker=broker.is_migrating_zk_broker,
        incarnation_id=broker.incarnation_id,
        broker_epoch=broker.epoch,
        end_points=[
            BrokerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e[3])
            for e in broker.listeners.values()
        ],
        features=[
            BrokerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in broker.features.items()
        ],
        rack=broker.rack,
        fenced=broker.fenced,
        in_controlled_shutdown=broker.in_controlled_shutdown if version >= 1 else False,
        log_dirs=list(broker.log_dirs) if version >= 3 else [],
        cordoned_log_dirs=(
            list(broker.cordoned_log_dirs)
            if version >= 4 and broker.cordoned_log_dirs is not None
            else None
        ),
    )


def controller_from_record(record: RegisterControllerRecord) -> ControllerImage:
    return ControllerImage(
        node_id=record.controller_id,
        incarnation_id=record.incarnation_id,
        listeners=_endpoints(record.end_points),
        features=_features(record.features),
        zk_migration_ready=record.zk_migration_ready,
    )


def controller_to_record(controller: ControllerImage) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=controller.node_id,
        incarnation_id=controller.incarnation_id,
        zk_migration_ready=controller.zk_migration_ready,
        end_points=[
            ControllerEndpoint(name=e.name, host=e.host, port=e.port, security_protocol=e[3])
            for e in controller.listeners.values()
        ],
        features=[
            ControllerFeature(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in controller.features.items()
        ],
    )


def _directories(ids: list[bytes] | None) -> tuple[bytes, ...] | None:
    return None if ids is None else tuple(ids)


def _endpoints(
    endpoints: list[BrokerEndpoint] | list[ControllerEndpoint],
) -> dict[str, Endpoint]:
    return {e.name: Endpoint(e.name, e.host, e.port, e.security_protocol) for e in endpoints}


def _features(features: list[BrokerFeature] | list[ControllerFeature]) -> dict[str, VersionRange]:
    return {
        f.name: VersionRange(f.min_supported_version, f.max_supported_version) for f in features
    }


class BrokersDelta:
    """What records have made of the registered nodes."""

    __slots__ = ("base", "base_controllers", "changed", "controllers")

    def __init__(
        self, base: Mapping[int, BrokerImage], controllers: Mapping[int, ControllerImage]
    ) -> None:
        self.base = base
        self.base_controllers = controllers
        self.changed: dict[int, BrokerImage | None] = {}
        """Brokers that changed; None for one that is unregistered."""
        self.controllers: dict[int, ControllerImage] = {}

    def __bool__(self) -> bool:
        return bool(self.changed or self.controllers)

    def broker(self, node_id: int) -> BrokerImage | None:
        if node_id in self.changed:
            return self.changed[node_id]
        return self.base.get(node_id)

    def replay_register(self, record: RegisterBrokerRecord) -> None:
        self.changed[record.broker_id] = broker_from_record(record)

    def replay_unregister(self, record: UnregisterBrokerRecord) -> None:
        self._registered(record.broker_id, record.broker_epoch)
        self.changed[record.broker_id] = None

    def replay_fence(
        self, record: FenceBrokerRecord | UnfenceBrokerRecord, *, fenced: bool
    ) -> None:
        broker = self._registered(record.id, record.epoch)
        self.changed[record.id] = broker._replace(fenced=fenced)

    def replay_change(self, record: BrokerRegistrationChangeRecord) -> None:
        broker = self._registered(record.broker_id, record.broker_epoch)
        if record.fenced not in (-1, 0, 1) or record.in_controlled_shutdown not in (0, 1):
            raise ValueError(f"unknown change of a broker's registration: {record!r}")
        self.changed[record.broker_id] = broker._replace(
            fenced=broker.fenced if record.fenced == 0 else record.fenced == 1,
            in_controlled_shutdown=broker.in_controlled_shutdown
            or record.in_controlled_shutdown == 1,
            log_dirs=tuple(record.log_dirs) or broker.log_dirs,
            cordoned_log_dirs=(
                broker.cordoned_log_dirs
                if record.cordoned_log_dirs is None
                else tuple(record.cordoned_log_dirs)
            ),
        )

    def replay_register_controller(self, record: RegisterControllerRecord) -> None:
        self.controllers[record.controller_id] = controller_from_record(record)

    def _registered(self, node_id: int, epoch: int) -> BrokerImage:
        broker = self.broker(node_id)
        if broker is None or broker.epoch != epoch:
            raise ValueError(f"record of a broker that is not registered: {node_id} epoch {epoch}")
        return broker

    def apply(self) -> Mapping[int, BrokerImage]:
        if not self.changed:
            return self.base
        brokers = dict(self.base)
        for node_id, broker in self.changed.items():
            if broker is None:
                brokers.pop(node_id, None)
            else:
                brokers[node_id] = broker
        return brokers

    def apply_controllers(self) -> Mapping[int, ControllerImage]:
        if not self.controllers:
            return self.base_controllers
        return {**self.base_controllers, **self.controllers}
