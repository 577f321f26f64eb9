"""Finalized features: the levels that the whole cluster has agreed to use."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.metadata import versions
from ottla.protocol.generated.metadata_records import FeatureLevelRecord


class FeaturesImage(NamedTuple):
    metadata_version: int = 0
    """0 while the log has not said it."""
    finalized: Mapping[str, int] = {}
    """The other features; level 0 is not kept."""
    zk_migration_state: int = 0

    def level(self, feature: str) -> int:
        if feature == versions.METADATA_VERSION:
            return self.metadata_version
        return self.finalized.get(feature, 0)

    @property
    def elr_enabled(self) -> bool:
        return self.level(versions.ELIGIBLE_LEADER_REPLICAS_VERSION) > 0


class FeaturesDelta:
    __slots__ = ("base", "changed", "zk_migration_state")

    def __init__(self, base: FeaturesImage) -> None:
        self.base = base
        self.changed: dict[str, int] = {}
        self.zk_migration_state: int | None = None

    def __bool__(self) -> bool:
        return bool(self.changed) or self.zk_migration_state is not None

    def replay(self, record: FeatureLevelRecord) -> None:
        if record.name == versions.METADATA_VERSION and not (
            versions.MINIMUM_METADATA_VERSION
            <= record.feature_level
            <= versions.LATEST_METADATA_VERSION
        ):
            raise ValueError(
                f"the cluster's metadata.version is {record.feature_level}; known are "
                f"{versions.MINIMUM_METADATA_VERSION} to {versions.LATEST_METADATA_VERSION}"
            )
        self.changed[record.name] = record.feature_level

    def apply(self) -> FeaturesImage:
        if not self:
            return self.base
        finalized = {**self.base.finalized, **self.changed}
        metadata_version = finalized.pop(versions.METADATA_VERSION, self.base.metadata_version)
        return FeaturesImage(
            metadata_version=metadata_version,
            finalized={name: level for name, level in finalized.items() if level > 0},
            zk_migration_state=(
                self.base.zk_migration_state
                if self.zk_migration_state is None
                else self.zk_migration_state
            ),
        )


def features_to_records(features: FeaturesImage) -> list[FeatureLevelRecord]:
    """metadata.version comes first: it tells how to read the rest."""
    levels = {versions.METADATA_VERSION: features.metadata_version, **features.finalized}
    return [
        FeatureLevelRecord(name=name, feature_level=level)
        for name, level in levels.items()
        if level > 0
    ]
