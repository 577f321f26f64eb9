"""BrokerRegistration, BrokerHeartbeat, UnregisterBroker, ControllerRegistration; and fencing.

A broker registers fenced, reads the metadata log up to its own registration, and is unfenced by the
heartbeat that says so. Silence for a session fences it again. A broker whose last incarnation did
not end cleanly (it cannot name its last epoch) loses its places in every ISR: its log may be short.
"""

from collections.abc import Iterator
from itertools import chain

from ottla.common.errors import (
    BrokerIdNotRegistered,
    DuplicateBrokerRegistration,
    InconsistentClusterId,
    InvalidRegistration,
    UnsupportedVersion,
)
from ottla.common.identifiers import uuid_text
from ottla.controller.partition_index import PartitionKey
from ottla.controller.partitions import PartitionsManager
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.metadata import versions
from ottla.metadata.brokers import BrokerImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated import broker_heartbeat as bh
from ottla.protocol.generated import broker_registration as br
from ottla.protocol.generated import controller_registration as cr
from ottla.protocol.generated import unregister_broker as ub
from ottla.protocol.generated.metadata_records import (
    BrokerEndpoint,
    BrokerFeature,
    BrokerRegistrationChangeRecord,
    ControllerEndpoint,
    ControllerFeature,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)

FENCE = 1
UNFENCE = -1
_RESERVED_DIRECTORY_IDS = 100


class BrokersManager:
    def __init__(self, state: ControllerState, partitions: PartitionsManager) -> None:
        self._state = state
        self._partitions = partitions

    # BrokerRegistration

    def register_broker(
        self, request: br.BrokerRegistrationRequest, now: float
    ) -> ControllerResult[br.BrokerRegistrationResponse]:
        state = self._state
        broker_id = request.broker_id
        old = state.image.brokers.get(broker_id)
        self._check_registration(request, old, now)
        record = RegisterBrokerRecord(
            broker_id=broker_id,
            incarnation_id=request.incarnation_id,
            end_points=[
                BrokerEndpoint(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in request.listeners
            ],
            features=[
                BrokerFeature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in request.features
            ],
            rack=request.rack,
            fenced=True,
        )
        if versions.directory_assignment_supported(state.metadata_version):
            record.log_dirs = list(request.log_dirs)
        records: list[MetadataRecord] = []
        if old is not None and old.incarnation_id == request.incarnation_id:
            record.broker_epoch = old.epoch
            record.fenced = old.fenced
            record.in_controlled_shutdown = old.in_controlled_shutdown
        else:
            clean = old is not None and request.previous_broker_epoch == old.epoch
            records += self._previous_incarnation_ended(broker_id, clean=clean)
            # The offset of the registration itself: a broker that has read that far has read it.
            record.broker_epoch = state.next_offset + len(records)
            state.heartbeats.remove(broker_id)
        records.append(record)
        return ControllerResult(
            br.BrokerRegistrationResponse(broker_epoch=record.broker_epoch), records, atomic=False
        )

    def _check_registration(
        self, request: br.BrokerRegistrationRequest, old: BrokerImage | None, now: float
    ) -> None:
        state = self._state
        if request.cluster_id != state.cluster_id:
            raise InconsistentClusterId(
                f"Expected cluster ID {state.cluster_id}, but got cluster ID {request.cluster_id}"
            )
        if (
            old is not None
            and old.incarnation_id != request.incarnation_id
            and not old.in_controlled_shutdown
            and state.heartbeats.has_valid_session(old.node_id, old.epoch, now)
        ):
            raise DuplicateBrokerRegistration(
                "Another broker is registered with that broker id. If the broker was recently "
                "restarted this should self-resolve once the heartbeat manager expires the "
                "broker's session."
            )
        if request.is_migrating_zk_broker:
            raise UnsupportedVersion("Controller does not support registering ZK brokers.")
        if versions.directory_assignment_supported(state.metadata_version):
            self._check_directories(request)
        self._check_features(
            {f.name: (f.min_supported_version, f.max_supported_version) for f in request.features}
        )

    def _check_directories(self, request: br.BrokerRegistrationRequest) -> None:
        directories = request.log_dirs
        if not directories:
            raise InvalidRegistration("No directories specified in request")
        if any(int.from_bytes(each, "big") < _RESERVED_DIRECTORY_IDS for each in directories):
            raise InvalidRegistration("Reserved directory ID in request")
        if len(set(directories)) != len(directories):
            raise InvalidRegistration("Duplicate directory ID in request")
        for other in self._state.image.brokers.values():
            for directory in directories:
                if other.node_id != request.broker_id and directory in other.log_dirs:
                    raise InvalidRegistration(
                        f"Broker {other.node_id} is already registered with directory "
                        f"{uuid_text(directory)}"
                    )

    def _check_features(self, ranges: dict[str, tuple[int, int]]) -> None:
        """Every finalized feature must be within what the broker supports."""
        features = self._state.image.features
        if versions.METADATA_VERSION not in ranges:
            raise InvalidRegistration("Request features do not contain 'metadata.version'")
        finalized = {versions.METADATA_VERSION: features.metadata_version, **features.finalized}
        for name, level in finalized.items():
            low, high = ranges.get(name, (0, 0))
            if not low <= level <= high:
                raise UnsupportedVersion(
                    "Unable to register because the broker does not support finalized version "
                    f"{level} of {name}. The broker wants a version between {low} and {high}, "
                    "inclusive."
                )

    def _previous_incarnation_ended(self, broker_id: int, *, clean: bool) -> list[MetadataRecord]:
        if clean or not self._state.image.features.elr_enabled:
            return self._partitions.broker_leaves(broker_id)
        index = self._state.index
        return self._partitions.leader_changes(
            chain(index.in_isr(broker_id), index.in_elr(broker_id)),
            unclean_shutdown=frozenset({broker_id}),
        )

    # BrokerHeartbeat

    def heartbeat(
        self, request: bh.BrokerHeartbeatRequest, now: float
    ) -> ControllerResult[bh.BrokerHeartbeatResponse]:
        broker_id, epoch = request.broker_id, request.broker_epoch
        self._partitions.check_broker_epoch(broker_id, epoch)
        broker = self._state.image.brokers[broker_id]
        caught_up = request.current_metadata_offset >= broker.epoch
        response = bh.BrokerHeartbeatResponse(is_caught_up=caught_up, is_fenced=broker.fenced)
        session = self._state.heartbeats.touch(broker_id, epoch, now)
        session.metadata_offset = request.current_metadata_offset
        records: list[MetadataRecord] = []
        offline = self._newly_offline(request, broker)
        if broker.fenced:
            if request.want_shut_down:
                response.should_shut_down = True
            elif offline:
                pass  # it must not be elected for what is in them: that is written first
            elif caught_up and not (request.want_fence or broker.in_controlled_shutdown):
                records += self._unfenced(broker)
                response.is_fenced = False
        elif broker.in_controlled_shutdown:
            if self._may_stop(broker_id):
                records += self._fenced(broker)
                response.is_fenced = response.should_shut_down = True
        elif request.want_fence:
            records += self._fenced(broker)
            response.is_fenced = True
            response.should_shut_down = request.want_shut_down
        elif request.want_shut_down:
            if self._state.index.leads(broker_id):
                records += self._stopping(broker)
                end_offset = self._state.next_offset + len(records)
                session.controlled_shutdown_offset = end_offset - 1
            else:
                records += self._fenced(broker)
                response.is_fenced = response.should_shut_down = True
        records += self._directory_changes(request, broker, offline)
        if response.should_shut_down:
            # It goes for good, and is fenced: its next incarnation need not wait for the session to
            # end.
            self._state.heartbeats.remove(broker_id)
        return ControllerResult(response, records, atomic=False)

    def _may_stop(self, broker_id: int) -> bool:
        """Whether it leads nothing any more, and everybody has heard of that."""
        state = self._state
        if state.index.leads(broker_id):
            return False
        session = state.heartbeats.session(broker_id)
        assert session is not None
        return session.controlled_shutdown_offset <= state.heartbeats.lowest_offset(state.is_active)

    def _fenced(self, broker: BrokerImage) -> list[MetadataRecord]:
        broker_id = broker.node_id
        records = self._partitions.broker_leaves(broker_id)
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker_id, broker_epoch=broker.epoch, fenced=FENCE
            )
        )
        return records

    def _unfenced(self, broker: BrokerImage) -> list[MetadataRecord]:
        change = BrokerRegistrationChangeRecord(
            broker_id=broker.node_id, broker_epoch=broker.epoch, fenced=UNFENCE
        )
        changes = self._partitions.leader_changes(
            self._state.index.leaderless, added=frozenset({broker.node_id})
        )
        return [change, *changes]

    def _stopping(self, broker: BrokerImage) -> list[MetadataRecord]:
        broker_id = broker.node_id
        change = BrokerRegistrationChangeRecord(
            broker_id=broker_id, broker_epoch=broker.epoch, in_controlled_shutdown=1
        )
        return [change, *self._partitions.broker_leaves(broker_id)]

    def _newly_offline(
        self, request: bh.BrokerHeartbeatRequest, broker: BrokerImage
    ) -> frozenset[bytes]:
        if not versions.directory_assignment_supported(self._state.metadata_version):
            return frozenset()
        return frozenset(request.offline_log_dirs) & frozenset(broker.log_dirs)

    def _directory_changes(
        self, request: bh.BrokerHeartbeatRequest, broker: BrokerImage, offline: frozenset[bytes]
    ) -> list[MetadataRecord]:
        """Directories that went offline, or take no new replicas any more."""
        records: list[MetadataRecord] = []
        if offline:
            remaining = [each for each in broker.log_dirs if each not in offline]
            records += self._partitions.leader_changes(
                self._in_directories(broker.node_id, offline),
                removed=frozenset({broker.node_id}),
            )
            records.append(self._change(broker, log_dirs=remaining))
        cordoned = request.cordoned_log_dirs
        if (
            cordoned is not None
            and versions.cordoned_log_dirs_supported(self._state.metadata_version)
            and (broker.cordoned_log_dirs is None or set(cordoned) != set(broker.cordoned_log_dirs))
        ):
            records.append(self._change(broker, cordoned_log_dirs=cordoned))
        return records

    def _in_directories(
        self, broker_id: int, directories: frozenset[bytes]
    ) -> Iterator[PartitionKey]:
        """Partitions that the broker has in these directories and is in sync with."""
        topics = self._state.image.topics
        for topic_id, partition_id in self._state.index.in_isr(broker_id):
            partition = topics.by_id[topic_id].partitions[partition_id]
            if partition.directory_of(broker_id) in directories:
                yield topic_id, partition_id

    def _change(
        self,
        broker: BrokerImage,
        log_dirs: list[bytes] | None = None,
        cordoned_log_dirs: list[bytes] | None = None,
    ) -> BrokerRegistrationChangeRecord:
        return BrokerRegistrationChangeRecord(
            broker_id=broker.node_id,
            broker_epoch=broker.epoch,
            log_dirs=log_dirs or [],
            cordoned_log_dirs=cordoned_log_dirs,
        )

    # Sessions

    def expire_sessions(self, now: float) -> ControllerResult[None]:
        """Fence the first broker whose session has ended; the caller comes again for the next."""
        heartbeats = self._state.heartbeats
        for broker_id in heartbeats.expired(now):
            heartbeats.remove(broker_id)
            broker = self._state.image.brokers.get(broker_id)
            if broker is not None and not broker.fenced:
                return ControllerResult(None, self._fenced(broker), atomic=False)
        return ControllerResult(None)

    # UnregisterBroker

    def unregister_broker(
        self, request: ub.UnregisterBrokerRequest
    ) -> ControllerResult[ub.UnregisterBrokerResponse]:
        broker_id = request.broker_id
        broker = self._state.image.brokers.get(broker_id)
        if broker is None:
            raise BrokerIdNotRegistered(f"Broker ID {broker_id} is not currently registered")
        records = self._partitions.broker_leaves(broker_id)
        records.append(UnregisterBrokerRecord(broker_id=broker_id, broker_epoch=broker.epoch))
        self._state.heartbeats.remove(broker_id)
        return ControllerResult(ub.UnregisterBrokerResponse(), records, atomic=False)

    # ControllerRegistration

    def register_controller(
        self, request: cr.ControllerRegistrationRequest
    ) -> ControllerResult[cr.ControllerRegistrationResponse]:
        if not versions.controller_registration_supported(self._state.metadata_version):
            raise UnsupportedVersion(
                "The current MetadataVersion is too old to support controller registrations."
            )
        record = RegisterControllerRecord(
            controller_id=request.controller_id,
            incarnation_id=request.incarnation_id,
            zk_migration_ready=request.zk_migration_ready,
            end_points=[
                ControllerEndpoint(
                    name=listener.name,
                    host=listener.host,
                    port=listener.port,
                    security_protocol=listener.security_protocol,
                )
                for listener in request.listeners
            ],
            features=[
                ControllerFeature(
                    name=feature.name,
                    min_supported_version=feature.min_supported_version,
                    max_supported_version=feature.max_supported_version,
                )
                for feature in request.features
            ],
        )
        return ControllerResult(cr.ControllerRegistrationResponse(error_message=None), [record])
