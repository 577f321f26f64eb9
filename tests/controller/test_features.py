"""UpdateFeatures and AllocateProducerIds; texts are those of Apache Kafka 4.3.1."""

import pytest
from tests.controller.machines import Controller, QuorumVersion, error

from ottla.common.errors import ApiError, StaleBrokerEpoch
from ottla.protocol.generated.allocate_producer_ids import AllocateProducerIdsRequest
from ottla.protocol.generated.metadata_records import (
    ConfigRecord,
    FeatureLevelRecord,
    NoOpRecord,
    ProducerIdsRecord,
)
from ottla.protocol.generated.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE, SAFE, UNSAFE = 1, 2, 3
FAILED = "The update failed for all features since the following feature had an error: "
OK = ("NONE", None)


def send(
    controller: Controller,
    *updates: FeatureUpdateKey,
    validate_only: bool = False,
    quorum: QuorumVersion | None = None,
) -> UpdateFeaturesResponse:
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    return controller.apply(
        controller.machine.features.update_features(request, quorum or QuorumVersion())
    )


def update(
    controller: Controller, name: str, level: int, how: int = UPGRADE
) -> tuple[str, str | None]:
    wanted = FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how)
    response = send(controller, wanted)
    return error(response.error_code, response.error_message)


def test_a_level_is_lowered_and_raised() -> None:
    controller = Controller(brokers=1)
    assert update(controller, "group.version", 0, SAFE) == OK
    assert controller.image.features.level("group.version") == 0
    assert update(controller, "group.version", 1) == OK
    assert controller.records[-1] == FeatureLevelRecord(name="group.version", feature_level=1)


def test_the_level_that_is_there_already_is_no_record() -> None:
    controller = Controller(brokers=1)
    before = len(controller.records)
    for name, level in (("group.version", 1), ("metadata.version", 30), ("kraft.version", 1)):
        assert update(controller, name, level) == OK
    assert len(controller.records) == before


def test_all_updates_are_made_or_none() -> None:
    controller = Controller(brokers=1)
    before = len(controller.records)
    response = send(
        controller,
        FeatureUpdateKey(feature="group.version", max_version_level=0, upgrade_type=SAFE),
        FeatureUpdateKey(feature="bla", max_version_level=1),
    )
    assert response.error_message == (
        f"{FAILED}Invalid update version 1 for feature bla. "
        "Local controller 1 does not support this feature."
    )
    assert len(controller.records) == before


def test_the_version_of_the_quorum_is_raised_unless_something_else_is_wrong_or_only_asked() -> None:
    controller = Controller(brokers=1)
    quorum = QuorumVersion(0)
    raised = FeatureUpdateKey(feature="kraft.version", max_version_level=1, upgrade_type=UPGRADE)
    unknown = FeatureUpdateKey(feature="bla", max_version_level=1, upgrade_type=UPGRADE)
    assert send(controller, raised, unknown, quorum=quorum).error_code != 0
    assert send(controller, raised, validate_only=True, quorum=quorum).error_code == 0
    assert quorum.kraft_version == 0
    assert send(controller, raised, quorum=quorum).error_code == 0
    assert quorum.kraft_version == 1
    assert isinstance(controller.records[-1], NoOpRecord), "the answer waits for the commit"


def test_only_validating_changes_nothing_and_old_versions_list_the_features() -> None:
    controller = Controller(brokers=1)
    wanted = FeatureUpdateKey(feature="group.version", max_version_level=0, allow_downgrade=True)
    response = send(controller, wanted, validate_only=True)
    assert [(each.feature, each.error_message) for each in response.results] == [
        ("group.version", "NONE")
    ]
    assert controller.image.features.level("group.version") == 1


DOWNGRADE = (
    "Can't downgrade the version of this feature without setting the upgrade type to either safe "
    "or unsafe downgrade."
)


@pytest.mark.parametrize(
    ("name", "level", "how", "reason"),
    [
        ("metadata.version", 31, UPGRADE, "Local controller 1 only supports versions 7-30"),
        ("metadata.version", 29, UPGRADE, DOWNGRADE),
        ("group.version", 0, UPGRADE, DOWNGRADE),
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1"),
        ("group.version", -1, UPGRADE, "A feature version cannot be less than 0."),
        ("group.version", 1, 0, "The controller does not support the given upgrade type."),
        ("kraft.version", 0, UPGRADE, DOWNGRADE),
        ("kraft.version", 0, SAFE, "Can't downgrade the version of this feature."),
    ],
)
def test_levels_that_cannot_be_are_refused(name: str, level: int, how: int, reason: str) -> None:
    assert update(Controller(brokers=1), name, level, how) == (
        "INVALID_UPDATE_VERSION",
        f"{FAILED}Invalid update version {level} for feature {name}. {reason}",
    )


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (
            SAFE,
            ("Refusing to perform the requested downgrade because it might delete metadata "
            "information."),
        ),
        (UNSAFE, "Unsafe metadata downgrade is not supported in this version."),
    ],
)  # fmt: skip
def test_a_metadata_version_that_would_lose_records_is_not_gone_back_to(
    how: int, reason: str
) -> None:
    assert update(Controller(brokers=1), "metadata.version", 29, how) == (
        "INVALID_UPDATE_VERSION",
        f"{FAILED}Unsupported metadata.version downgrade from 30 to 29. {reason}",
    )


def test_a_level_must_be_supported_by_every_broker() -> None:
    controller = Controller(brokers=1)
    assert update(controller, "group.version", 0, SAFE) == OK
    request = controller.registration(2)
    request.features = [f for f in request.features if f.name != "group.version"]
    controller.register(request)
    assert update(controller, "group.version", 1) == (
        "INVALID_UPDATE_VERSION",
        (
            f"{FAILED}Invalid update version 1 for feature group.version. "
            "Broker 2 does not support this feature."
        ),
    )


def test_eligible_leader_replicas_give_the_cluster_a_minimum_isr_of_its_own() -> None:
    controller = Controller(brokers=1, min_insync_replicas="2")
    assert controller.image.configs_of(4, "") == {"min.insync.replicas": "2"}
    name = "eligible.leader.replicas.version"
    assert update(controller, name, 0, SAFE) == OK
    for resource in ("", "1"):
        record = ConfigRecord(
            resource_type=4,
            resource_name=resource,
            name="min.insync.replicas",
            value=None if resource == "" else "3",
        )
        controller.machine.replay(
            [record], base_offset=len(controller.records), epoch=1, timestamp_ms=0
        )
        controller.records.append(record)
    assert update(controller, name, 1) == OK
    assert controller.image.configs_of(4, "") == {"min.insync.replicas": "2"}
    assert controller.image.configs_of(4, "1") == {}


# AllocateProducerIds


def test_producer_ids_come_in_blocks_that_never_overlap() -> None:
    controller = Controller(brokers=2)
    blocks = []
    for broker_id in (1, 2, 1):
        request = AllocateProducerIdsRequest(
            broker_id=broker_id, broker_epoch=controller.epochs[broker_id]
        )
        response = controller.apply(controller.machine.producer_ids.allocate(request))
        blocks.append((response.producer_id_start, response.producer_id_len))
    assert blocks == [(0, 1000), (1000, 1000), (2000, 1000)]
    assert controller.image.next_producer_id == 3000


def test_producer_ids_are_not_for_brokers_of_another_life() -> None:
    controller = Controller(brokers=1)
    with pytest.raises(StaleBrokerEpoch):
        controller.machine.producer_ids.allocate(
            AllocateProducerIdsRequest(broker_id=1, broker_epoch=0)
        )


def test_the_last_producer_id_is_not_passed() -> None:
    controller = Controller(brokers=1)
    record = ProducerIdsRecord(next_producer_id=(1 << 63) - 1000)
    controller.machine.replay([record], base_offset=99, epoch=1, timestamp_ms=0)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=controller.epochs[1])
    with pytest.raises(ApiError, match="Exhausted all producerIds"):
        controller.machine.producer_ids.allocate(request)
