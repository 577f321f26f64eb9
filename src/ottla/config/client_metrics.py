"""The settings of a subscription to the metrics that clients push (KIP-714)."""

import re
from collections.abc import Mapping
from typing import Final

from ottla.common.errors import InvalidConfig, InvalidRequest
from ottla.config.definition import ConfigSet, Int, List
from ottla.config.validators import distinct

INTERVAL_MS: Final = range(100, 3_600_000 + 1)
MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


class ClientMetricsConfig(ConfigSet):
    """Which clients push which metrics, and how often."""

    metrics = List((), "Prefixes of the metrics that are wanted; * for all.", distinct())
    interval_ms = Int(300_000, "Time between two pushes.")
    match = List((), "Which clients are meant, as property=pattern, ...", distinct())


def check_client_metrics(name: str, settings: Mapping[str, str]) -> None:
    """Refuse a subscription that could not be carried out."""
    if not name:
        raise InvalidRequest("Subscription name can't be empty")
    for setting in settings:
        if setting not in ClientMetricsConfig.keys:
            raise InvalidRequest(f"Unknown client metrics configuration: {setting}")
    config = ClientMetricsConfig(settings)
    if config.interval_ms not in INTERVAL_MS:
        raise InvalidRequest(
            f"Invalid value {config.interval_ms} for interval.ms, interval must be between "
            f"{INTERVAL_MS.start} and {INTERVAL_MS.stop - 1} (1 hour)"
        )
    for item in config.match:
        matched, separator, pattern = item.partition("=")
        if matched not in MATCHED or not separator or not _is_pattern(pattern):
            raise InvalidConfig(f"Illegal client matching pattern: {item}")


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text)
    except re.error:
        return False
    return True
