"""How fast limited clients are, by Kafka's names: one figure for each bucket that is in use.

Clients make up names, so that only so many buckets are shown; the others count all the same.
"""

from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import quote

from ottla.common.rates import Buckets
from ottla.metadata.client_quotas import CLIENT_ID, USER, QuotaEntity
from ottla.observability.metrics import Registry
from ottla.observability.names import MetricName
from ottla.requests.quotas import ClientQuotas

B = TypeVar("B")

SHOWN_MAX: Final = 1_000
"""Of one kind of quota."""


def register_rates(registry: Registry, quotas: ClientQuotas) -> None:
    """What clients of a broker are counted by."""
    for kind, attribute, quota in (
        ("Produce", "byte-rate", quotas.produce),
        ("Fetch", "byte-rate", quotas.fetch),
        ("Request", "request-time", quotas.request),
    ):
        _show(registry, kind, attribute, quota.buckets, lambda rate: rate.rate(quotas.ms()))


def register_tokens(registry: Registry, quotas: ClientQuotas) -> None:
    """What clients of a controller have left."""
    buckets = quotas.token_buckets
    _show(registry, "ControllerMutation", "tokens", buckets, lambda bucket: bucket.left)


def _show(
    registry: Registry,
    kind: str,
    attribute: str,
    buckets: Buckets[QuotaEntity, B],
    read: Callable[[B], float],
) -> None:
    shown: set[QuotaEntity] = set()

    def name_of(entity: QuotaEntity) -> MetricName:
        parts = dict(entity)
        tags = ((USER, _plain(parts.get(USER))), (CLIENT_ID, _plain(parts.get(CLIENT_ID))))
        return MetricName("kafka.server", kind, tags=tags, attribute=attribute)

    def made(entity: QuotaEntity, bucket: B) -> None:
        if len(shown) < SHOWN_MAX:
            shown.add(entity)
            registry.gauge(name_of(entity), lambda: read(bucket))

    def gone(entity: QuotaEntity) -> None:
        if entity in shown:
            shown.discard(entity)
            registry.remove(name_of(entity))

    buckets.on_made, buckets.on_gone = made, gone


def _plain(name: str | None) -> str:
    """A name as it may stand in that of a metric."""
    return quote(name or "", safe="")
