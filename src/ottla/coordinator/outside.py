"""What a coordinator asks of the world around it; the server, a test or a simulator provides it.

A coordinator does not know replication: it appends to a partition that this broker leads and hears
when that is committed, and it reads the partition once, when it begins to lead it.
"""

from typing import NamedTuple, Protocol

from ottla.common.environment import Scheduler
from ottla.common.promise import Promise
from ottla.metadata.image import MetadataImage


class Verification(Protocol):
    """That a transaction is open on a partition, as the leader of that partition was told."""


class Producer(NamedTuple):
    """On whose behalf a coordinator writes, within a transaction."""

    producer_id: int
    producer_epoch: int
    verification: Verification | None
    """None when the partition knows that the transaction is open."""


class EndTransactionMarker(NamedTuple):
    """The end of a transaction on a partition."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    committed: bool
    transaction_version: int


class PartitionWriter(Protocol):
    def append(
        self,
        topic: str,
        partition: int,
        batch: bytes,
        *,
        verification: Verification | None = None,
        transaction_version: int = 0,
    ) -> Promise[int]:
        """Append one record batch; the promise holds its last offset once that is committed.

        A batch of a transaction brings the verification that it is open, where that was asked for;
        a marker brings the version of the transaction.

        Promises of one partition are kept in the order of the calls. One fails, with an ApiError,
        only when nothing was written, or when this broker leads the partition no longer: there is
        no time-out here, for a batch that is in the log may be committed at any later time.
        """
        ...


class PartitionReader(Protocol):
    """A partition that this broker leads, as far as its log goes."""

    def log_start_offset(self, topic: str, partition: int) -> int: ...

    def high_watermark(self, topic: str, partition: int) -> int: ...

    def log_end_offset(self, topic: str, partition: int) -> int: ...

    def read(self, topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
        """Whole batches, from the one that holds ``offset`` on, up to the log end offset.

        At least one batch however large it is, and empty when there is none. Raises ApiError.
        """
        ...


class Topics(Protocol):
    """How many partitions topics have, as this broker knows it now."""

    def partition_count(self, topic: str) -> int | None:
        """How many partitions ``topic`` has; None when there is no such topic."""
        ...


class ClusterTopics(Topics, Protocol):
    """The topics of the cluster, as this broker knows them now."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def newest_topic_offset(self) -> int:
        """The offset of the metadata log at which the newest topic came, or was first seen."""
        ...


class TransactionVerifier(Protocol):
    def verify(
        self,
        topic: str,
        partition: int,
        *,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        api_version: int,
    ) -> Promise[Verification | None]:
        """Make sure that a transaction is open on a partition that this broker leads.

        ``api_version`` is that of the TxnOffsetCommit that wants to write. Fails with an ApiError.
        """
        ...


class RuntimeOutside(NamedTuple):
    """Everything that a runtime is given, and its bounds."""

    writer: PartitionWriter
    reader: PartitionReader
    scheduler: Scheduler
    commit_timeout_ms: int
    """How long an answer waits for its records to be committed (offsets.commit.timeout.ms)."""
    load_bytes: int
    """How much of a log is replayed in one turn of the loop."""
    batch_bytes: int
    """A batch takes no further request when it has grown to this."""
    base_sequence: int = -1
    """Of batches outside of transactions; it means nothing there, but Kafka's groups write 0."""
    compression: int = 0
    """The codec of the batches that are written (offsets.topic.compression.codec)."""
