"""Levels of metadata.version and of the features that go with it.

The expected values are what kafka-storage 4.3.1 answers to version-mapping and format.
"""

import pytest

from ottla.metadata import versions


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("3.3-IV3", 7),
        ("3.7", 19),
        ("3.9", 21),
        ("3.9.1", 21),
        ("3.9-IV0", 21),
        ("4.0", 25),
        ("4.0-IV0", 22),
        ("4.1", 27),
        ("4.3", 30),
        ("4.3.1", 30),
    ],
)
def test_a_release_stands_for_a_level(text: str, level: int) -> None:
    assert versions.metadata_version_from_text(text) == level


@pytest.mark.parametrize("text", ["4", "5.0", "4.4", "4.3-IV1", "", "x", "3.2"])
def test_a_release_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"Unknown metadata\.version"):
        versions.metadata_version_from_text(text)


@pytest.mark.parametrize(
    ("release", "levels"),
    [
        ("3.9", {}),
        ("4.0", {"transaction.version": 2, "group.version": 1}),
        (
            "4.1",
            {
                "transaction.version": 2,
                "group.version": 1,
                "eligible.leader.replicas.version": 1,
            },
        ),
        (
            "4.3",
            {
                "transaction.version": 2,
                "group.version": 1,
                "eligible.leader.replicas.version": 1,
                "share.version": 1,
                "streams.version": 1,
            },
        ),
    ],
)
def test_a_release_begins_with_these_features(release: str, levels: dict[str, int]) -> None:
    level = versions.metadata_version_from_text(release)
    assert versions.default_feature_levels(level) == levels


def test_every_level_has_a_name() -> None:
    low, high = versions.SUPPORTED_FEATURES[versions.METADATA_VERSION]
    assert list(versions.METADATA_VERSION_NAMES) == list(range(low, high + 1))
    assert versions.metadata_version_name(30) == "4.3-IV0"
    assert versions.metadata_version_name(99) == "99"


def test_a_downgrade_past_a_level_that_brought_records_loses_them() -> None:
    assert versions.downgrade_loses_metadata(30, 29)
    assert versions.downgrade_loses_metadata(29, 22)
    assert not versions.downgrade_loses_metadata(29, 23)
    assert not versions.downgrade_loses_metadata(22, 17)
