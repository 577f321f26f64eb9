"""Where a query begins and ends: the offsets that its options stand for, as brokers know them now.

What is missing is told by name: topic, partition, offset, and what to do. Whether it ends the query
is for ``failOnDataLoss`` to say.
"""

import logging
import re
from collections.abc import Mapping

from ottla.client.errors import SomeRefused
from ottla.client.offsets import EARLIEST, LATEST
from ottla.common.errors import ErrorCode
from ottla.common.topic_partition import TopicPartition
from ottla.spark.errors import ADVICE, BadOption, DataLoss
from ottla.spark.source.broker_reads import BrokerReads
from ottla.spark.source.offsets import (
    AtTimestamp,
    AtTimestamps,
    Everywhere,
    Limit,
    Offsets,
    OfGroup,
    Specific,
    TopicIds,
)
from ottla.spark.source.options import SourceOptions

_log = logging.getLogger(__name__)


class Positions:
    """Of the partitions that the options subscribe to."""

    def __init__(self, options: SourceOptions, reads: BrokerReads) -> None:
        self._options = options
        self._reads = reads

    def assigned(self, *, missing_ok: bool = False) -> tuple[list[TopicPartition], TopicIds]:
        """The partitions to read, and the ids of their topics."""
        wanted = self._options.subscription
        if wanted.pattern:
            found = {
                name: topic
                for name, topic in self._reads.topics(None).items()
                if not topic.internal and re.fullmatch(wanted.pattern, name)
            }
        else:
            names = wanted.topics or [each.topic for each in wanted.partitions]
            found = self._reads.topics(names)
            for name in names:
                if name not in found and not missing_ok:
                    raise self._missing(f"topic {name} does")
        partitions = [
            TopicPartition(name, index)
            for name, topic in found.items()
            for index in topic.partitions
        ]
        if wanted.partitions:
            known = set(partitions)
            for each in wanted.partitions:
                if each not in known and not missing_ok:
                    raise self._missing(f"partition {each.partition} of topic {each.topic} does")
            partitions = [each for each in wanted.partitions if each in known]
        return partitions, {name: topic.topic_id for name, topic in found.items()}

    def _missing(self, what: str) -> BadOption:
        servers = self._options.kafka.bootstrap_servers
        return BadOption(f"{what} not exist on {servers}: create it, or correct its name")

    def starting(self, partitions: list[TopicPartition]) -> Offsets:
        """Where a new query begins."""
        return self._all(self._options.starting, partitions, starting=True)

    def ending(self, partitions: list[TopicPartition]) -> Offsets:
        """Where a batch query ends."""
        return self._all(self._options.ending, partitions, starting=False)

    def _all(self, limit: Limit, partitions: list[TopicPartition], *, starting: bool) -> Offsets:
        """Of every partition. A broker may not have heard of one yet: it is asked again."""
        left = self._options.retries
        while True:
            offsets = self._resolve(limit, partitions, starting=starting)
            missing = sorted(set(partitions) - set(offsets))
            if not missing:
                return offsets
            if not left:
                which = "starting" if starting else "ending"
                listed = ", ".join(str(each) for each in missing)
                self.lost(f"{listed}: its {which} offset is not known to any broker any more")
                return offsets
            left -= 1
            self._reads.cluster.clock.wait(self._options.retry_interval_ms / 1000)

    def at(self, where: int, partitions: list[TopicPartition]) -> Offsets:
        """EARLIEST or LATEST of each partition; those that are gone meanwhile are left out."""
        return self._list(dict.fromkeys(partitions, where))

    def _list(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        listed, refused = self._reads.list_offsets(wanted)
        for error in refused.values():
            if error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise SomeRefused(refused, listed)
        return listed

    def _resolve(
        self, limit: Limit, partitions: list[TopicPartition], *, starting: bool
    ) -> Offsets:
        which = "starting" if starting else "ending"
        match limit:
            case Everywhere(at):
                return self.at(at, partitions)
            case Specific():
                return self._specific(limit, partitions, f"{which}Offsets")
            case OfGroup():
                return self._of_group(partitions)
            case AtTimestamp(stamp):
                return self._at_times(dict.fromkeys(partitions, stamp), starting=starting)
            case AtTimestamps(stamps):
                _check_all(dict(stamps), partitions, f"{which}OffsetsByTimestamp")
                return self._at_times(dict(stamps), starting=starting)

    def _specific(self, limit: Specific, partitions: list[TopicPartition], option: str) -> Offsets:
        topics = dict(limit.topics)
        wanted = {each: topics[each.topic] for each in partitions if each.topic in topics}
        wanted |= dict(limit.offsets)
        _check_all(wanted, partitions, option)
        special = {each: offset for each, offset in wanted.items() if offset < 0}
        named = {each: offset for each, offset in wanted.items() if offset >= 0}
        return dict(sorted((self._within(named, option) | self._list(special)).items()))

    def _of_group(self, partitions: list[TopicPartition]) -> Offsets:
        group = self._options.group
        assert group is not None
        committed = self._reads.committed(group)
        rest = [each for each in partitions if each not in committed]
        offsets = {each: committed[each].offset for each in partitions if each in committed}
        named = self._within(offsets, "startingOffsets")
        return dict(sorted((named | self.at(EARLIEST, rest)).items()))

    def _at_times(self, stamps: Mapping[TopicPartition, int], *, starting: bool) -> Offsets:
        found = self._list(stamps)
        late = [partition for partition, offset in found.items() if offset < 0]
        if late and starting and not self._options.latest_if_no_match:
            listed = ", ".join(f"{each} at {stamps[each]}" for each in late)
            raise BadOption(
                f"no record is as late as the starting timestamp: {listed}. Begin earlier, or set "
                "startingOffsetsByTimestampStrategy to latest"
            )
        return found | self.at(LATEST, late)

    def _within(self, offsets: Offsets, option: str) -> Offsets:
        """Offsets that were named must lie in what there is."""
        first, last = (self.at(where, list(offsets)) for where in (EARLIEST, LATEST))
        for partition, offset in offsets.items():
            begin, end = first.get(partition, 0), last.get(partition, 0)
            if not begin <= offset <= end:
                self.lost(
                    f"{partition}: {option} is {offset}, but there are only offsets from {begin} "
                    f"to {end}"
                )
                offsets[partition] = min(max(offset, begin), end)
        return offsets

    def lost(self, what: str) -> None:
        report_loss(self._options, what)


def report_loss(options: SourceOptions, what: str, advice: str = ADVICE) -> None:
    """Records are gone: the end of the query, or a warning."""
    if options.fail_on_data_loss:
        raise DataLoss(f"{what}. {advice}.")
    _log.warning("%s; the query goes on, because failOnDataLoss is false", what)


def _check_all(
    named: Mapping[TopicPartition, int], partitions: list[TopicPartition], option: str
) -> None:
    unnamed = sorted(set(partitions) - set(named))
    unknown = sorted(set(named) - set(partitions))
    if unnamed or unknown:
        parts = [
            f"{what}: {', '.join(str(each) for each in some)}"
            for what, some in (("missing", unnamed), ("not subscribed to", unknown))
            if some
        ]
        raise BadOption(
            f"{option} must name every partition, with -1 for latest and -2 for earliest; "
            + "; ".join(parts)
        )
