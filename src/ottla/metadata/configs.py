"""Dynamic configs: what was set for topics, brokers, groups and client metrics."""

from collections.abc import Mapping
from typing import TypeAlias

from ottla.metadata.layered_map import changed_map
from ottla.protocol.generated.metadata_records import ConfigRecord

ConfigResource: TypeAlias = tuple[int, str]
"""Type and name; the broker of name ``""`` is the default for all brokers."""
ConfigsImage: TypeAlias = Mapping[ConfigResource, Mapping[str, str]]

NO_CONFIGS: Mapping[str, str] = {}


class ConfigsDelta:
    """What records have made of the configs; a resource without any is not kept."""

    __slots__ = ("base", "changed")

    def __init__(self, base: ConfigsImage) -> None:
        self.base = base
        self.changed: dict[ConfigResource, dict[str, str]] = {}

    def __bool__(self) -> bool:
        return bool(self.changed)

    def replay(self, record: ConfigRecord) -> None:
        configs = self._configs((record.resource_type, record.resource_name))
        if record.value is None:
            configs.pop(record.name, None)
        else:
            configs[record.name] = record.value

    def forget(self, resource: ConfigResource) -> None:
        if resource in self.changed or resource in self.base:
            self._configs(resource).clear()

    def _configs(self, resource: ConfigResource) -> dict[str, str]:
        configs = self.changed.get(resource)
        if configs is None:
            configs = self.changed[resource] = dict(self.base.get(resource, NO_CONFIGS))
        return configs

    def apply(self) -> ConfigsImage:
        if not self.changed:
            return self.base
        changed = {resource: configs for resource, configs in self.changed.items() if configs}
        gone = {
            resource: None
            for resource, configs in self.changed.items()
            if not configs and resource in self.base
        }
        return changed_map(self.base, changed, gone)


def configs_to_records(configs: ConfigsImage) -> list[ConfigRecord]:
    return [
        ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        for (kind, name), values in configs.items()
        for key, value in values.items()
    ]
