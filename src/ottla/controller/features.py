"""UpdateFeatures: raise, and with care lower, the levels that the cluster uses.

All updates of a request are made or none. A level must be supported by this controller, by every
registered broker and by every registered controller.
"""

from collections.abc import Iterator
from typing import Final, Protocol

from ottla.common.errors import InvalidUpdateVersion
from ottla.controller.configs import ConfigsManager
from ottla.controller.result import ControllerResult
from ottla.controller.state import ControllerState
from ottla.metadata import versions
from ottla.metadata.records import MetadataRecord
from ottla.protocol.generated.metadata_records import FeatureLevelRecord, NoOpRecord
from ottla.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class KRaftVersionAccessor(Protocol):
    """The quorum, which has a version of its own."""

    @property
    def kraft_version(self) -> int: ...

    def upgrade(self, version: int, *, validate_only: bool) -> None:
        """Write it to the log, or raise InvalidUpdateVersion."""


class FeaturesManager:
    def __init__(self, state: ControllerState, configs: ConfigsManager) -> None:
        self._state = state
        self._configs = configs

    def update_features(
        self, request: UpdateFeaturesRequest, quorum: KRaftVersionAccessor
    ) -> ControllerResult[UpdateFeaturesResponse]:
        """kraft.version is no record of ours: the ``quorum`` writes it."""
        records: list[MetadataRecord] = []
        level = quorum.kraft_version
        try:
            for update in request.feature_updates:
                records += self._update(update, quorum)
                if update.feature == versions.KRAFT_VERSION:
                    level = update.max_version_level
        except InvalidUpdateVersion as error:
            return ControllerResult(
                UpdateFeaturesResponse(
                    error_code=error.code,
                    error_message="The update failed for all features since the following feature "
                    f"had an error: {error.message}",
                )
            )
        response = UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(feature=update.feature, error_message="NONE")
                for update in request.feature_updates
            ],
        )
        if request.validate_only:
            return ControllerResult(response)
        if level != quorum.kraft_version:
            quorum.upgrade(level, validate_only=False)
            # The answer waits for what is behind the quorum's own records, so it waits for them.
            records.append(NoOpRecord())
        return ControllerResult(response, records)

    def _update(
        self, update: FeatureUpdateKey, quorum: KRaftVersionAccessor
    ) -> list[MetadataRecord]:
        name, level = update.feature, update.max_version_level
        upgrade_type = SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
        current = self._state.image.features.level(name)
        if name == versions.KRAFT_VERSION:
            current = quorum.kraft_version
        reason = self._reason_against(name, level, current, upgrade_type)
        if reason is not None:
            raise InvalidUpdateVersion(
                f"Invalid update version {level} for feature {name}. {reason}"
            )
        if level == current:
            return []
        if name == versions.KRAFT_VERSION:
            quorum.upgrade(level, validate_only=True)
            return []
        if name == versions.METADATA_VERSION and level < current:
            _check_metadata_downgrade(current, level, upgrade_type)
        records: list[MetadataRecord] = [FeatureLevelRecord(name=name, feature_level=level)]
        if name == versions.ELIGIBLE_LEADER_REPLICAS_VERSION and current == 0:
            records += self._configs.elr_records()
        return records

    def _reason_against(self, name: str, level: int, current: int, upgrade_type: int) -> str | None:
        if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
            return "The controller does not support the given upgrade type."
        if level < 0:
            return "A feature version cannot be less than 0."
        for reason in self._unsupported(name, level):
            return reason
        if level < current and upgrade_type == UPGRADE:
            return (
                "Can't downgrade the version of this feature without setting the upgrade type to "
                "either safe or unsafe downgrade."
            )
        if level > current and upgrade_type != UPGRADE:
            return "Can't downgrade to a newer version."
        if name == versions.KRAFT_VERSION and level < current:
            return "Can't downgrade the version of this feature."
        needed = versions.FEATURE_DEPENDENCIES.get((name, level))
        if needed is not None and self._state.metadata_version < needed:
            return (
                f"{name} could not be set to {level} because it depends on metadata.version "
                f"level {needed}"
            )
        return None

    def _unsupported(self, name: str, level: int) -> Iterator[str]:
        """Why somebody does not support the level."""
        node_id = self._state.config.node_id
        supported = versions.SUPPORTED_FEATURES.get(name)
        if supported is None:
            yield f"Local controller {node_id} does not support this feature."
        elif not supported[0] <= level <= supported[1]:
            low, high = supported
            yield f"Local controller {node_id} only supports versions {low}-{high}"
        if name == versions.KRAFT_VERSION:
            return
        image = self._state.image
        nodes = [(f"Broker {id_}", node.features) for id_, node in image.brokers.items()]
        nodes += [(f"Controller {id_}", node.features) for id_, node in image.controllers.items()]
        for who, features in nodes:
            low, high = features.get(name, (0, 0))
            if level > 0 and high == 0:
                yield f"{who} does not support this feature."
            elif not low <= level <= high and level > 0:
                yield f"{who} only supports versions {low}-{high}"


def _check_metadata_downgrade(current: int, level: int, upgrade_type: int) -> None:
    if upgrade_type == UNSAFE_DOWNGRADE:
        reason = "Unsafe metadata downgrade is not supported in this version."
    elif versions.downgrade_loses_metadata(current, level):
        reason = (
            "Refusing to perform the requested downgrade because it might delete metadata "
            "information."
        )
    else:
        return
    raise InvalidUpdateVersion(
        f"Unsupported metadata.version downgrade from {current} to {level}. {reason}"
    )
