"""AlterConfigs and IncrementalAlterConfigs.

What a change is and whether it may be made is decided in ``ottla.config``; here it becomes records.
Each resource of a request stands for itself. While eligible leader replicas are in use, the minimum
ISR is a matter of the cluster: it cannot be removed, a broker has none of its own, and a change of
it makes the eligible replicas of the topics concerned void.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from ottla.common.errors import (
    ApiError,
    BrokerIdNotRegistered,
    InvalidConfig,
    InvalidRequest,
    UnknownTopicOrPartition,
)
from ottla.config.broker import BrokerConfig
from ottla.config.changes import (
    Change,
    ConfigOperation,
    Resource,
    apply_changes,
    check_broker_settings,
    check_group_settings,
    check_topic_settings,
    merged,
    node_id_of,
)
from ottla.config.client_metrics import check_client_metrics
from ottla.config.describe import Entry, describe_topic
from ottla.controller.remote_storage import check_remote_storage
from ottla.controller.result import ControllerResult, check_records
from ottla.controller.state import ControllerState
from ottla.controller.topic_names import check_topic_name
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated import alter_configs, incremental_alter_configs
from ottla.protocol.generated.metadata_records import ClearElrRecord, ConfigRecord

VALUE_LENGTH_MAX: Final = 32767
MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
_Changes = Mapping[str, str | None]


class ConfigsManager:
    def __init__(self, state: ControllerState) -> None:
        self._state = state
        self._defaults: tuple[BrokerConfig, list[Entry]] | None = None
        """The settings of a topic that sets nothing, and what they were worked out from."""

    # For new topics

    def new_topic_records(self, topic: str, configs: _Changes) -> list[ConfigRecord]:
        config = check_topic_settings(self._state.effective_config(), configs)
        if config.remote_storage_enable:
            check_remote_storage(self._state)
        _check_lengths(configs)
        return [
            ConfigRecord(resource_type=Resource.TOPIC, resource_name=topic, name=name, value=value)
            for name, value in configs.items()
        ]

    def describe_topic(self, own: Mapping[str, str]) -> list[Entry]:
        """All settings of a topic that sets these itself."""
        config = self._state.effective_config()
        if own:
            return describe_topic(self._state.layers(), config, own)
        if self._defaults is None or self._defaults[0] is not config:
            self._defaults = (config, describe_topic(self._state.layers(), config, own))
        return self._defaults[1]

    # Requests

    def incremental_alter_configs(
        self, request: incremental_alter_configs.IncrementalAlterConfigsRequest
    ) -> ControllerResult[incremental_alter_configs.IncrementalAlterConfigsResponse]:
        response = incremental_alter_configs.IncrementalAlterConfigsResponse()
        records: list[MetadataRecord] = []
        times = Counter((r.resource_type, r.resource_name) for r in request.resources)
        for wanted in request.resources:
            answer = incremental_alter_configs.AlterConfigsResourceResponse(
                resource_type=wanted.resource_type,
                resource_name=wanted.resource_name,
                error_message=None,
            )
            response.responses.append(answer)
            try:
                _check_once(times[wanted.resource_type, wanted.resource_name])
                resource = _resource(wanted.resource_type)
                changes = [
                    Change(each.name, _operation(each.config_operation), each.value)
                    for each in wanted.configs
                ]
                current = self._state.image.configs_of(resource, wanted.resource_name)
                changed = apply_changes(resource, current, changes)
                records += self._alter(resource, wanted.resource_name, changed)
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message or None
        check_records(records)
        return ControllerResult(response, [] if request.validate_only else records)

    def alter_configs(
        self, request: alter_configs.AlterConfigsRequest
    ) -> ControllerResult[alter_configs.AlterConfigsResponse]:
        """The older form: what is not named is removed."""
        response = alter_configs.AlterConfigsResponse()
        records: list[MetadataRecord] = []
        times = Counter((r.resource_type, r.resource_name) for r in request.resources)
        for wanted in request.resources:
            answer = alter_configs.AlterConfigsResourceResponse(
                resource_type=wanted.resource_type,
                resource_name=wanted.resource_name,
                error_message=None,
            )
            response.responses.append(answer)
            try:
                _check_once(times[wanted.resource_type, wanted.resource_name])
                resource = _resource(wanted.resource_type)
                if resource is Resource.BROKER_LOGGER:
                    raise InvalidRequest(f"Unknown resource type {wanted.resource_type}")
                changes = [
                    Change(each.name, ConfigOperation.SET, each.value) for each in wanted.configs
                ]
                current = self._state.image.configs_of(resource, wanted.resource_name)
                changed: dict[str, str | None] = dict.fromkeys(current)
                changed |= apply_changes(resource, {}, changes)
                records += self._alter(resource, wanted.resource_name, changed)
            except ApiError as error:
                answer.error_code, answer.error_message = error.code, error.message or None
        check_records(records)
        return ControllerResult(response, [] if request.validate_only else records)

    # One resource

    def _alter(self, resource: Resource, name: str, changed: _Changes) -> list[MetadataRecord]:
        current = self._state.image.configs_of(resource, name)
        _check_lengths(changed)
        self._check(resource, name, merged(current, changed), changed)
        # A broker reloads what stands behind a setting (a key store) even when its name is kept.
        always = resource is Resource.BROKER
        records = [
            ConfigRecord(resource_type=resource, resource_name=name, name=key, value=value)
            for key, value in changed.items()
            if always or current.get(key) != value
        ]
        made = any(record.name == MIN_INSYNC_REPLICAS for record in records)
        if made and self._clears_elr(resource):
            topic = name if resource is Resource.TOPIC else ""
            return [*records, ClearElrRecord(topic_name=topic)]
        return list[MetadataRecord](records)

    def _clears_elr(self, resource: Resource) -> bool:
        return (
            resource in (Resource.TOPIC, Resource.BROKER) and self._state.image.features.elr_enabled
        )

    def _check(
        self, resource: Resource, name: str, settings: dict[str, str], changed: _Changes
    ) -> None:
        state = self._state
        match resource:
            case Resource.TOPIC:
                if not name:
                    raise InvalidRequest("Default topic resources are not allowed.")
                check_topic_name(name)
                existing = state.image.configs_of(resource, name)
                config = check_topic_settings(state.effective_config(), settings, existing)
                if name not in state.image.topics.by_name:
                    raise UnknownTopicOrPartition(f"The topic '{name}' does not exist.")
                if config.remote_storage_enable and "remote.storage.enable" in changed:
                    check_remote_storage(state)
            case Resource.BROKER:
                self._check_broker(name, settings, changed)
            case Resource.GROUP:
                if not name:
                    raise InvalidRequest("Default group resources are not allowed.")
                check_group_settings(state.effective_config(), settings)
            case Resource.CLIENT_METRICS:
                check_client_metrics(name, settings)
            case Resource.BROKER_LOGGER:
                raise InvalidRequest("Log levels are kept by each broker for itself.")

    def _check_registered(self, name: str) -> None:
        """Refuse what is no node that the cluster knows."""
        node_id = node_id_of(name)
        image = self._state.image
        if node_id not in image.brokers and node_id not in image.controllers:
            raise BrokerIdNotRegistered(f"No broker with id {name} found.")

    def _check_broker(self, name: str, settings: dict[str, str], changed: _Changes) -> None:
        state = self._state
        if name:
            self._check_registered(name)
        if name in ("", str(state.config.node_id)):
            # Of another broker's file nothing is known here: that broker has looked at it itself.
            check_broker_settings(state.layers(), settings, per_broker=bool(name))
        if MIN_INSYNC_REPLICAS in changed and state.image.features.elr_enabled:
            if name:
                raise InvalidConfig(
                    "Broker-level min.insync.replicas cannot be altered while ELR is enabled."
                )
            if changed[MIN_INSYNC_REPLICAS] is None:
                raise InvalidConfig(
                    "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."
                )

    # When eligible leader replicas come into use

    def elr_records(self) -> list[ConfigRecord]:
        """Give the cluster a minimum ISR of its own, and take those of brokers away."""
        records = []
        configs = self._state.image.configs
        if MIN_INSYNC_REPLICAS not in configs.get((Resource.BROKER, ""), {}):
            value = self._state.config.min_insync_replicas
            records.append(_config_record(Resource.BROKER, "", MIN_INSYNC_REPLICAS, str(value)))
        for (kind, name), values in configs.items():
            if kind == Resource.BROKER and name and MIN_INSYNC_REPLICAS in values:
                records.append(_config_record(kind, name, MIN_INSYNC_REPLICAS, None))
        return records


def _config_record(kind: int, name: str, key: str, value: str | None) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)


def _check_once(times: int) -> None:
    if times > 1:
        raise InvalidRequest("Each resource must appear at most once.")


def _resource(number: int) -> Resource:
    try:
        return Resource(number)
    except ValueError:
        raise InvalidRequest(f"Unknown resource type {number}") from None


def _operation(number: int) -> ConfigOperation:
    try:
        return ConfigOperation(number)
    except ValueError:
        raise ApiError from None


def _check_lengths(changed: _Changes) -> None:
    for value in changed.values():
        if value is not None and len(value) > VALUE_LENGTH_MAX:
            raise InvalidConfig(
                "The configuration value cannot be added because it exceeds the maximum value "
                f"size of {VALUE_LENGTH_MAX} bytes."
            )
