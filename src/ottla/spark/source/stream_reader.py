"""Streaming queries: how far each micro-batch goes, and what may have been lost between two.

Lives in the driver for the whole query. Offsets say of which topics they are (``offsets``), also in
the checkpoint: so it is seen that a topic was deleted and made anew, whenever that was. Ranges have
the id of their topic and are fetched by it: a namesake is never read in place of what is gone.
Offsets without ids, of spark-sql-kafka, are taken for those of the topics that there are.
"""

import logging
from collections.abc import Mapping
from typing import Final

from ottla.client.offsets import EARLIEST, LATEST
from ottla.client.system_time import Deadline
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition
from ottla.spark.source.broker_reads import BrokerReads, connected
from ottla.spark.source.offsets import (
    Offsets,
    OffsetsJson,
    TopicIds,
    from_json,
    to_json,
    topic_ids_of,
)
from ottla.spark.source.options import SourceOptions
from ottla.spark.source.positions import Positions
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.reader import plan_tasks

_log = logging.getLogger(__name__)

TOPICS_AGE_MAX_MS: Final = 5_000
"""How long a new partition may go unseen; triggers come every few milliseconds."""
_SIZES_AGE_MAX_MS: Final = 30_000
_PLACES_SHOWN: Final = 5
_RECORD_BYTES: Final = 1024
"""Where brokers do not tell their sizes."""


class TopicStream:
    """The offsets of one streaming query."""

    def __init__(self, options: SourceOptions) -> None:
        self.options = options
        self._reads: BrokerReads = connected(options.kafka)
        self._clock = self._reads.cluster.clock
        self._positions = Positions(options, self._reads)
        self._partitions: list[TopicPartition] = []
        self._topic_ids: TopicIds = {}
        self._recreated: set[str] = set()
        self._fresh_until = Deadline(self._clock, 0)
        self._latest: Offsets = {}
        self._frozen: Offsets | None = None
        self._freezes = False
        self._triggered_ms = 0
        self._committed: Offsets = {}
        self._sizes: dict[TopicPartition, float] = {}
        self._sizes_until = Deadline(self._clock, 0)

    def initial(self) -> OffsetsJson:
        """Where a query without a checkpoint begins."""
        self._look(missing_ok=False)
        return self._json(self._positions.starting(self._partitions))

    def freeze(self) -> None:
        """What is there at the next look is all that this query will read."""
        self._freezes = True

    def latest(
        self,
        start: OffsetsJson | None = None,
        *,
        limited: bool = False,
    ) -> OffsetsJson:
        """How far the next micro-batch goes; with ``limited`` as far as the options let it."""
        known = from_json(start) if start else {}
        if known:
            self.commit_offsets(known)
        if self._frozen is not None:
            self._latest = self._frozen
        else:
            self._latest = self._look_latest(known, topic_ids_of(start or {}))
        if self._freezes:
            self._frozen = self._latest
        if not limited or start is None:
            return self._json(self._latest)
        begins = known | self._begins_of_new(known)
        if self._waits(begins):
            return start
        return self._json(self._limited(begins, self._latest))

    def reported(self) -> OffsetsJson | None:
        """The end of what there is, whatever the limits."""
        return to_json(self._latest) if self._latest else None

    def tasks(self, start: OffsetsJson, end: OffsetsJson) -> list[tuple[OffsetRange, ...]]:
        """What the tasks of a micro-batch read; also of one that is repeated after a restart."""
        begins, ends = from_json(start), from_json(end)
        if not self._topic_ids or any(each.topic not in self._topic_ids for each in ends):
            self._look(begins, missing_ok=True)
        ids = topic_ids_of(end)
        self._compare(topic_ids_of(start), ids, begins)
        begins = self._checked(begins, ends)
        for each in [each for each in ends if not self._same(each.topic, ids)]:
            if begins[each] < (last := ends.pop(each)):
                self._positions.lost(
                    f"{each}: offsets {begins[each]} to {last - 1} of a micro-batch that is run "
                    "again are gone: the topic was deleted"
                )
        return plan_tasks(self.options, self._reads, self._topic_ids, begins, ends)

    def commit_offsets(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Tell the consumer group how far the query is; nothing depends on it but what people see.

        Also said before each look for new records: Spark itself says it only with the next batch.
        """
        group = self.options.commit_group
        if group is None or offsets == self._committed:
            return
        try:
            self._reads.commit(group, offsets)
        except (ApiError, OSError) as error:
            _log.warning("the offsets of group %s could not be committed: %s", group, error)
        self._committed = dict(offsets)

    def close(self) -> None:
        self._reads.close()

    # What there is

    def _json(self, offsets: Offsets) -> OffsetsJson:
        return to_json(offsets, self._topic_ids if self.options.checkpoint_topic_ids else None)

    def _same(self, topic: str, ids: TopicIds) -> bool:
        """Whether the topic is there, and is the one that is meant."""
        there = self._topic_ids.get(topic)
        return there is not None and ids.get(topic, there) == there

    def _compare(self, before: TopicIds, after: TopicIds, known: Offsets) -> None:
        """Tell which topics are others than before; once, as long as nothing of them is read."""
        for topic, topic_id in before.items():
            if after.get(topic, topic_id) != topic_id and topic not in self._recreated:
                places = [f"{each} offset {known[each]}" for each in known if each.topic == topic]
                since = f", from {', '.join(places[:_PLACES_SHOWN])} on," if places else ""
                self._positions.lost(
                    f"topic {topic} was deleted and made anew: what the query had not read{since} "
                    "is gone"
                )
                self._recreated.add(topic)

    def _look(self, known: Offsets | None = None, *, missing_ok: bool) -> None:
        """Which partitions there are, and whether a topic is another than before."""
        partitions, topic_ids = self._positions.assigned(missing_ok=missing_ok)
        self._compare(self._topic_ids, topic_ids, known or {})
        self._partitions, self._topic_ids = partitions, topic_ids
        age = min(TOPICS_AGE_MAX_MS, self.options.kafka.timing.metadata_age_max_ms)
        self._fresh_until = Deadline(self._clock, age)

    def _look_latest(self, known: Offsets, ids: TopicIds) -> Offsets:
        """The end of each partition. One that is missing, or before what is known, may be so only
        for a broker that lags.
        """
        attempt = 0
        while True:
            if self._fresh_until.passed:
                self._look(known, missing_ok=True)
            self._compare(ids, self._topic_ids, known)
            latest = self._positions.at(LATEST, self._partitions)
            behind = any(
                latest.get(each, -1) < offset and each.topic not in self._recreated
                for each, offset in known.items()
            )
            if attempt == self.options.retries:
                return latest
            if len(latest) == len(self._partitions) and not behind:
                return latest
            attempt += 1
            self._fresh_until = Deadline(self._clock, 0)
            self._clock.wait(self.options.retry_interval_ms / 1000)

    def _begins_of_new(self, known: Offsets) -> Offsets:
        new = [each for each in self._latest if each not in known or each.topic in self._recreated]
        return self._positions.at(EARLIEST, new) if new else {}

    def _checked(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Where to begin: new partitions at their start; what is not whole is told."""
        checked = dict(begins)
        new = [each for each in ends if each not in begins]
        first = self._positions.at(EARLIEST, new) if new else {}
        for each in new:
            if each not in first:
                self._positions.lost(f"{each} is gone, up to offset {ends[each]}")
            elif first[each] > 0:
                self._positions.lost(f"new partition {each} begins at {first[each]} instead of 0")
            checked[each] = first.get(each, ends[each])
        for each, begin in begins.items():
            if each not in ends:
                self._positions.lost(f"{each} is gone, from offset {begin} on")
            elif ends[each] < begin:
                self._positions.lost(
                    f"{each} has only offsets up to {ends[each]}, the query was at {begin} already"
                )
        self._begin_recreated(checked, ends)
        return checked

    def _begin_recreated(self, begins: Offsets, ends: Offsets) -> None:
        """All of a topic that was made anew is new, once."""
        anew = [each for each in ends if each.topic in self._recreated]
        begins.update(self._positions.at(EARLIEST, anew) if anew else {})
        self._recreated -= {each.topic for each in anew}

    # How much of it

    def _waits(self, begins: Offsets) -> bool:
        """Whether there is too little for a micro-batch, and time to wait for more."""
        least = self.options.offsets_per_trigger_min
        if least is None or self._freezes:
            return False
        now = self._clock.wall_ms()
        new = sum(end - begins.get(each, 0) for each, end in self._latest.items())
        if now - self._triggered_ms < self.options.trigger_delay_max_ms and new < least:
            return True
        self._triggered_ms = now
        return False

    def _limited(self, begins: Offsets, ends: Offsets) -> Offsets:
        """Each partition its share of the limits, in proportion to what is there."""
        new = {
            each: end - begins[each]
            for each, end in ends.items()
            if each in begins and end > begins[each]
        }
        share = self._share(new, ends)
        if share is None:
            return ends
        return {
            each: min(end, begins[each] + _part(new[each] * share)) if each in new else end
            for each, end in ends.items()
        }

    def _share(self, new: Offsets, ends: Offsets) -> float | None:
        """Which part of all that is new; None for all of it."""
        shares: list[float] = []
        records = sum(new.values())
        if self.options.offsets_per_trigger_max is not None and records:
            shares.append(self.options.offsets_per_trigger_max / records)
        if self.options.bytes_per_trigger_max is not None and records:
            sizes = self._record_sizes(ends)
            size = sum(count * sizes.get(each, _RECORD_BYTES) for each, count in new.items())
            shares.append(self.options.bytes_per_trigger_max / size)
        share = min(shares, default=1.0)
        return None if share >= 1 else share

    def _record_sizes(self, ends: Offsets) -> dict[TopicPartition, float]:
        if self._sizes_until.passed:
            self._sizes = self._reads.record_sizes(ends)
            self._sizes_until = Deadline(self._clock, _SIZES_AGE_MAX_MS)
        return self._sizes


def _part(records: float) -> int:
    """Nobody is starved: where a share is less than a record, it is one."""
    return max(int(records + 1e-6), 1)
