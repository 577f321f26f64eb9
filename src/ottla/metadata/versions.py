"""``metadata.version`` and the other features: their levels, names and what each level allows.

The level is finalized by a FeatureLevelRecord and raised by UpdateFeatures only; every rule that
depends on it asks a function here, so that a level number stands in one place.
"""

from typing import Final

METADATA_VERSION: Final = "metadata.version"
KRAFT_VERSION: Final = "kraft.version"
TRANSACTION_VERSION: Final = "transaction.version"
ELIGIBLE_LEADER_REPLICAS_VERSION: Final = "eligible.leader.replicas.version"

MINIMUM_METADATA_VERSION: Final = 7
LATEST_METADATA_VERSION: Final = 30

METADATA_VERSION_NAMES: Final[dict[int, str]] = {
    7: "3.3-IV3",
    8: "3.4-IV0",
    9: "3.5-IV0",
    10: "3.5-IV1",
    11: "3.5-IV2",
    12: "3.6-IV0",
    13: "3.6-IV1",
    14: "3.6-IV2",
    15: "3.7-IV0",
    16: "3.7-IV1",
    17: "3.7-IV2",
    18: "3.7-IV3",
    19: "3.7-IV4",
    20: "3.8-IV0",
    21: "3.9-IV0",
    22: "4.0-IV0",
    23: "4.0-IV1",
    24: "4.0-IV2",
    25: "4.0-IV3",
    26: "4.1-IV0",
    27: "4.1-IV1",
    28: "4.2-IV0",
    29: "4.2-IV1",
    30: "4.3-IV0",
}

METADATA_CHANGED_AT: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
"""Levels that brought new records or fields: going back below one would lose what they hold."""

SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {
    METADATA_VERSION: (MINIMUM_METADATA_VERSION, LATEST_METADATA_VERSION),
    ELIGIBLE_LEADER_REPLICAS_VERSION: (0, 1),
    "group.version": (0, 1),
    KRAFT_VERSION: (0, 1),
    "share.version": (0, 1),
    "streams.version": (0, 1),
    TRANSACTION_VERSION: (0, 2),
}
"""What this software supports, lowest and highest; a node registers with these ranges."""

DEFAULT_FEATURE_LEVELS: Final[dict[str, tuple[tuple[int, int], ...]]] = {
    ELIGIBLE_LEADER_REPLICAS_VERSION: ((26, 1),),
    "group.version": ((22, 1),),
    "share.version": ((28, 1),),
    "streams.version": ((29, 1),),
    TRANSACTION_VERSION: ((24, 2),),
}
"""Which level a newly formatted cluster gets from which metadata.version on."""

FEATURE_DEPENDENCIES: Final[dict[tuple[str, int], int]] = {
    (ELIGIBLE_LEADER_REPLICAS_VERSION, 1): 23,
}
"""The lowest metadata.version that a level of a feature needs."""


def metadata_version_name(level: int) -> str:
    return METADATA_VERSION_NAMES.get(level, str(level))


def metadata_version_from_text(text: str) -> int:
    """The level that a release (``4.3``, ``4.3.1``, ``4.3-IV0``) means; ValueError if none."""
    release = ".".join(text.split(".")[:2])
    found = [
        level
        for level, name in METADATA_VERSION_NAMES.items()
        if name == text or name.startswith(f"{release}-IV")
    ]
    exact = [level for level in found if METADATA_VERSION_NAMES[level] == text]
    if not found or ("-IV" in text and not exact):
        known = ", ".join(METADATA_VERSION_NAMES.values())
        raise ValueError(
            f"Unknown metadata.version '{text}'. Supported metadata.version are: {known}"
        )
    return exact[0] if exact else found[-1]


def downgrade_loses_metadata(old: int, new: int) -> bool:
    return any(new < level <= old for level in METADATA_CHANGED_AT)


def default_feature_levels(metadata_version: int) -> dict[str, int]:
    """The features, besides metadata.version, of a cluster that is formatted at that version."""
    levels = {}
    for feature, steps in DEFAULT_FEATURE_LEVELS.items():
        level = max((level for since, level in steps if metadata_version >= since), default=0)
        if level:
            levels[feature] = level
    return levels


def partition_record_version(metadata_version: int) -> int:
    if metadata_version >= 23:
        return 2
    return 1 if metadata_version >= 17 else 0


def register_broker_record_version(metadata_version: int) -> int:
    if metadata_version >= 30:
        return 4
    if metadata_version >= 17:
        return 3
    return 2 if metadata_version >= 8 else 1


def leader_epoch_grows_on_isr_shrink(metadata_version: int) -> bool:
    return metadata_version < 12


def scram_supported(metadata_version: int) -> bool:
    return metadata_version >= 11


def transactions_supported(metadata_version: int) -> bool:
    return metadata_version >= 13


def delegation_tokens_supported(metadata_version: int) -> bool:
    return metadata_version >= 14


def controller_registration_supported(metadata_version: int) -> bool:
    return metadata_version >= 15


def directory_assignment_supported(metadata_version: int) -> bool:
    return metadata_version >= 17


def cordoned_log_dirs_supported(metadata_version: int) -> bool:
    return metadata_version >= 30
