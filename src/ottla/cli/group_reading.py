"""Reading as a member of a group: partitions come and go, and how far was read is committed.

What was printed and taken by the reader of our output is committed: every few seconds, before a
partition is given up, and at the end. A reader that is killed in between leaves records to be read
again.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.client.errors import BrokerUnavailable
from ottla.client.groups import describe_group, group_offsets
from ottla.client.membership import Membership
from ottla.client.system_time import Deadline
from ottla.common.errors import ApiError
from ottla.common.topic_partition import TopicPartition

if TYPE_CHECKING:
    from ottla.client.consumer import AtTimestamp, Consumer
    from ottla.records.record import Record

COMMIT_MS: Final = 5_000
_POLL_MS: Final = 500
Starts = Callable[[list[TopicPartition]], "Mapping[TopicPartition, int | AtTimestamp]"]


class GroupReading:
    """From joining to leaving. ``starts`` says where partitions begin that have no offset yet."""

    def __init__(
        self, consumer: "Consumer", group_id: str, topic: str, starts: Starts, *, to_end: bool
    ) -> None:
        self._consumer = consumer
        self._member = Membership(consumer.cluster, group_id, [topic])
        self._group_id = group_id
        self._starts = starts
        self._to_end = to_end
        self._ends: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        """What is held, and where each goes on as far as it was printed and taken."""
        self._committed: dict[TopicPartition, int] = {}
        self._commit_due = Deadline(consumer.cluster.clock, COMMIT_MS)
        self._is_assigned = False

    def run(self, show: Callable[[TopicPartition, "Record"], None], limit: int | None) -> None:
        """Print until ``limit``, the end if that is wanted, or Ctrl-C."""
        left = limit
        try:
            while not self._is_at_end():
                self._heartbeat()
                if self._commit_due.passed:
                    self._commit(self._next)
                wait_ms = min(_POLL_MS, self._member.due.milliseconds)
                if not self._next:
                    self._consumer.cluster.clock.wait(wait_ms / 1000)
                count = self._print(self._consumer.poll(wait_ms), show, left)
                left = None if left is None else left - count
                if left == 0:
                    break
        finally:
            # What happened may be that nobody answers any more: there is nothing to leave then.
            with suppress(ApiError, BrokerUnavailable):
                self._commit(self._next)
                self._member.leave()

    def _is_at_end(self) -> bool:
        if not self._to_end or not self._is_assigned:
            return False
        if not self._next:
            # Nothing is ours: for good if all have what they shall have, else not yet.
            return describe_group(self._consumer.cluster, self._group_id).state == "Stable"
        return all(self._consumer.position(each) >= end for each, end in self._ends.items())

    def _heartbeat(self) -> None:
        while self._member.due.passed:
            wanted = self._member.heartbeat()
            if wanted is not None:
                self._rebalance(wanted)

    def _rebalance(self, wanted: Iterable[TopicPartition]) -> None:
        wanted = set(wanted)
        if self._member.is_lost:
            self._next.clear()  # somebody else may be further already
        self._commit({each: at for each, at in self._next.items() if each not in wanted})
        kept = {each: at for each, at in self._next.items() if each in wanted}
        added = sorted(wanted - kept.keys())
        self._consumer.assign({**kept, **self._begin(added)})
        self._next = {each: self._consumer.position(each) for each in sorted(wanted)}
        if self._to_end:
            ends = self._consumer.end_offsets(added) if added else {}
            self._ends = {each: {**self._ends, **ends}[each] for each in wanted}
        self._is_assigned = self._is_assigned or not self._member.is_lost
        if not self._member.is_lost:
            self._member.take(wanted)

    def _begin(self, added: list[TopicPartition]) -> "dict[TopicPartition, int | AtTimestamp]":
        """Where new partitions begin: where the group is, else as it was asked for."""
        if not added:
            return {}
        committed = group_offsets(self._consumer.cluster, self._group_id)
        known = {each: committed[each].offset for each in added if each in committed}
        self._committed.update(known)
        fresh = [each for each in added if each not in known]
        return {**known, **(self._starts(fresh) if fresh else {})}

    def _print(
        self,
        polled: Mapping[TopicPartition, list["Record"]],
        show: Callable[[TopicPartition, "Record"], None],
        limit: int | None,
    ) -> int:
        count = 0
        printed: dict[TopicPartition, int] = {}
        try:
            for partition, records in polled.items():
                for record in records:
                    if count == limit:
                        return count
                    end = self._ends.get(partition)
                    if end is not None and record.offset >= end:
                        break
                    show(partition, record)
                    count += 1
                    printed[partition] = record.offset + 1
                else:
                    printed[partition] = self._consumer.position(partition)
        finally:
            sys.stdout.flush()
            self._next.update(printed)
        return count

    def _commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        fresh = {each: at for each, at in offsets.items() if self._committed.get(each) != at}
        self._commit_due = Deadline(self._consumer.cluster.clock, COMMIT_MS)
        if not fresh:
            return
        try:
            self._member.commit(fresh)
        except ApiError:
            return  # the next heartbeat says whether we are still in the group
        self._committed.update(fresh)
