"""The topics of the shop: who writes them, how they are kept, how far they have come."""

import contextlib
import json
from collections.abc import Iterable
from typing import Final

from ottla.client.admin import Admin
from ottla.client.consumer import Consumer
from ottla.client.descriptions import NewTopic
from ottla.client.offsets import LATEST
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.demo.shop import CUSTOMERS, ORDERS, PAGE_VIEWS, PAYMENTS

ENRICHED: Final = "orders-enriched"
DEAD_LETTERS: Final = "shop-dead-letters"
EVENTS: Final = (CUSTOMERS, PAGE_VIEWS, ORDERS, PAYMENTS)
"""What the generator writes."""
RESULTS: Final = (ENRICHED, DEAD_LETTERS)
"""What the pipeline writes."""
PARTITIONS: Final = 3
_KEPT: Final = {"retention.ms": "-1", "retention.bytes": str(1 << 30)}
"""By size alone: a demo that rested for weeks finds its events again, above all the last ones."""
_COMPACTED: Final = {"cleanup.policy": "compact"}
_POLL_MS: Final = 5_000


def create_missing(admin: Admin) -> list[str]:
    """Make the topics that are not there; their names."""
    there = set(admin.list_topics())
    missing = [name for name in (*EVENTS, *RESULTS) if name not in there]
    if missing:
        admin.create_topics(
            NewTopic(
                name,
                1 if name in {CUSTOMERS, DEAD_LETTERS} else PARTITIONS,
                configs=_COMPACTED if name == CUSTOMERS else _KEPT,
            )
            for name in missing
        )
    return missing


def end_offsets(admin: Admin, names: Iterable[str]) -> dict[str, int]:
    """How many records were ever written to each topic, markers of transactions included."""
    described = admin.describe_topics(names)
    wanted = {
        TopicPartition(name, each.partition): LATEST
        for name, topic in described.items()
        for each in topic.partitions
    }
    ends = dict.fromkeys(described, 0)
    for partition, listed in admin.list_offsets(wanted).items():
        ends[partition.topic] += listed.offset
    return ends


def visits_so_far(bootstrap_servers: str) -> int:
    """The number of the next visit, by what the ends of the topic of page views say.

    No file keeps it: what is in the topics is the truth, however the last run ended.
    """
    with Consumer(bootstrap_servers, reset="earliest") as consumer:
        ends = consumer.end_offsets(consumer.partitions(PAGE_VIEWS))
        last = {partition: end - 1 for partition, end in ends.items() if end > 0}
        consumer.assign(last)
        visits = 0
        while last and (polled := consumer.poll(_POLL_MS)):
            for partition, records in polled.items():
                visits = max(visits, *(_visit(record.value) + 1 for record in records))
                last.pop(partition, None)
    return visits


def _visit(value: bytes | None) -> int:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        return int(json.loads(value or b"")["visit"])
    return -1


def has_customers(admin: Admin) -> bool:
    """Whether the shop has opened."""
    with contextlib.suppress(ApiError):
        return end_offsets(admin, [CUSTOMERS])[CUSTOMERS] > 0
    return False
