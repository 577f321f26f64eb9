"""Changes of settings, as far as a broker answers for them before the controller is asked.

A resource that is named twice, or a change that cannot be right, goes no further. A broker's own
settings are checked here, because only the broker knows its file; topics and the rest are the
controller's business.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol, TypeVar

from ottla.common.errors import ApiError, InvalidRequest
from ottla.config.changes import (
    Change,
    ConfigOperation,
    Resource,
    apply_changes,
    check_broker_name,
    check_broker_settings,
    merged,
)
from ottla.requests.context import NodeServices

_FORWARDED: Final = frozenset(
    {Resource.TOPIC, Resource.CLIENT_METRICS, Resource.GROUP, Resource.BROKER}
)


class Named(Protocol):
    resource_type: int
    resource_name: str


R = TypeVar("R", bound=Named)


def precheck(
    resources: Iterable[R], check: Callable[[R], bool]
) -> tuple[list[R], dict[int, ApiError | None]]:
    """Sort out what the controller need not hear of.

    ``check`` raises for a refusal and tells whether the controller is to be asked. Return the
    resources to ask about, and by position the outcome of the others; None for success.
    """
    resources = list(resources)
    times = Counter((each.resource_type, each.resource_name) for each in resources)
    rest: list[R] = []
    outcomes: dict[int, ApiError | None] = {}
    for position, resource in enumerate(resources):
        try:
            if times[resource.resource_type, resource.resource_name] > 1:
                raise InvalidRequest("Each resource must appear at most once.")
            if check(resource):
                rest.append(resource)
            else:
                outcomes[position] = None
        except ApiError as error:
            outcomes[position] = error
    return rest, outcomes


def check_names_and_values(changes: Iterable[tuple[str, int, str | None]]) -> None:
    """Refuse settings that are named twice, and values that are missing."""
    changes = list(changes)
    if len({name for name, _, _ in changes}) != len(changes):
        raise InvalidRequest("Error due to duplicate config keys")
    missing = [
        name
        for name, operation, value in changes
        if value is None and operation != ConfigOperation.DELETE
    ]
    if missing:
        raise InvalidRequest(f"Null value not supported for : {', '.join(missing)}")


def check_forwarded(resource_type: int) -> None:
    if resource_type not in _FORWARDED:
        raise InvalidRequest(f"Unknown resource type {resource_type}")


def check_broker_change(
    services: NodeServices, name: str, changes: Iterable[tuple[str, int, str | None]]
) -> None:
    """Refuse a change of this broker's settings, or of all brokers', that could not take effect."""
    check_broker_name(name, services.node_id)
    known = []
    for setting, operation, value in changes:
        if operation not in tuple(ConfigOperation):
            raise InvalidRequest(f"Unknown operations type {operation}")
        known.append(Change(setting, ConfigOperation(operation), value))
    current = services.metadata.image.configs_of(Resource.BROKER, name)
    changed = apply_changes(Resource.BROKER, current, known)
    check_broker_replacement(services, name, merged(current, changed))


def check_broker_replacement(
    services: NodeServices, name: str, settings: Mapping[str, str]
) -> None:
    check_broker_name(name, services.node_id)
    check_broker_settings(services.layers(), settings, per_broker=bool(name))
