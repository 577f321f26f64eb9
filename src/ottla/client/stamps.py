"""By what leaders know batches that come again: a producer id, its epoch, and a sequence.

A batch keeps the stamp that it was sent with until it is settled: any other would make it another
batch, which is written once more. When nobody knows whether a batch was written, or a leader does
not know where its producer is, that partition alone begins anew: with the next epoch, so that
whatever is still on its way of the older one is refused, and with sequence 0.
"""

from typing import Final, NamedTuple

from ottla.common.topic_partition import TopicPartition
from ottla.records.batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE

_EPOCH_MAX: Final = 32_767
_SEQUENCE_MASK: Final = 0x7FFFFFFF


class Stamp(NamedTuple):
    producer_id: int
    epoch: int
    sequence: int


NO_STAMP: Final = Stamp(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)


class Stamps:
    """What the next batch of each partition is stamped with. Ids are given by the cluster."""

    def __init__(self) -> None:
        self._next: dict[TopicPartition, Stamp] = {}
        self._fresh: Stamp | None = None
        """For partitions that nothing was sent to yet."""

    def needs_id(self, target: TopicPartition) -> bool:
        return self._fresh is None and target not in self._next

    def take_id(self, producer_id: int, epoch: int) -> None:
        self._fresh = Stamp(producer_id, epoch, 0)

    def next(self, target: TopicPartition) -> Stamp:
        stamp = self._next.get(target, self._fresh)
        assert stamp is not None
        return stamp

    def written(self, target: TopicPartition, stamp: Stamp, count: int) -> None:
        following = (stamp.sequence + count) & _SEQUENCE_MASK
        self._next[target] = stamp._replace(sequence=following)

    def begin_anew(self, target: TopicPartition, stamp: Stamp, *, same_id: bool = True) -> None:
        """After a batch with ``stamp`` that nobody knows of; another id when epochs are over."""
        if same_id and stamp.epoch < _EPOCH_MAX:
            self._next[target] = Stamp(stamp.producer_id, stamp.epoch + 1, 0)
            return
        self._next.pop(target, None)
        if self._fresh is not None and self._fresh.producer_id == stamp.producer_id:
            self._fresh = None
