"""A transactional producer of version 1 or 2 (KIP-890), one transaction after the other.

Version 1 has a known hole (KAFKA-17754): a request that comes late ends, or adds to, the next
transaction. A careful client of that version takes a new epoch whenever one of its requests had no
answer, and so does this one; with version 2 it relies on the broker.
"""

from typing import Final, TypeVar

from ottla.common.errors import RETRIABLE, ErrorCode
from ottla.protocol.api import ApiKey
from ottla.protocol.generated.add_offsets_to_txn import (
    AddOffsetsToTxnRequest,
)
from ottla.protocol.generated.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.generated.end_txn import EndTxnRequest, EndTxnResponse
from ottla.protocol.generated.init_producer_id import (
    InitProducerIdRequest,
)
from ottla.protocol.generated.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.message import Request, Response
from ottla.simulation.cluster_client import GROUP, TRANSACTION, ClusterClient, Place
from ottla.simulation.history import CommitOffset, EndTransaction, History, Outcome, Send
from ottla.simulation.workloads.membership import Member
from ottla.simulation.workloads.producing import DELIVERY_SECONDS, Batch, Identity, produce

R = TypeVar("R", bound=Response)

TIMEOUT_MS: Final = 10_000
VERSION_1: Final = {
    ApiKey.PRODUCE: 11,
    ApiKey.ADD_PARTITIONS_TO_TXN: 3,
    ApiKey.ADD_OFFSETS_TO_TXN: 3,
    ApiKey.TXN_OFFSET_COMMIT: 4,
    ApiKey.END_TXN: 4,
}
"""The highest versions that a client of transaction version 1 speaks."""
OF_GROUPS: Final = frozenset(
    {
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_MEMBER_EPOCH,
        ErrorCode.STALE_MEMBER_EPOCH,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""What only ends the transaction."""


class Fenced(Exception):
    """Another has taken the transactional id, or the coordinator has ended the transaction."""


class Spoilt(Exception):
    """This transaction can only be aborted."""


class TransactionalProducer:
    def __init__(
        self,
        client: ClusterClient,
        history: History,
        transactional_id: str,
        version: int,
        *,
        delivery_seconds: float = DELIVERY_SECONDS,
    ) -> None:
        self._client = client
        self._history = history
        self._id = transactional_id
        self._version = version
        self._delivery_seconds = delivery_seconds
        self._identity = Identity(-1, -1)
        self._transaction = ""
        self._added: set[object] = set()
        self._numbers: dict[tuple[int, Place], int] = {}
        self._count = 0
        self._is_unsure = False
        """A request had no answer: it may come late."""

    async def init(self) -> None:
        """Take the transactional id; its former holder is fenced."""
        request = InitProducerIdRequest(
            transactional_id=self._id, transaction_timeout_ms=TIMEOUT_MS
        )
        while True:
            try:
                answer = await self._client.ask_coordinator(TRANSACTION, self._id, request)
            except OSError:
                await self._client.back_off()
                continue
            if answer.error_code == ErrorCode.NONE:
                break
            await self._refused(answer.error_code)
        self._identity = Identity(answer.producer_id, answer.producer_epoch, self._id)
        self._is_unsure = False

    async def _refused(self, code: int) -> None:
        """Wait before the next attempt, or say why there is none."""
        if code in OF_GROUPS:
            raise Spoilt
        if code not in RETRIABLE and code != ErrorCode.CONCURRENT_TRANSACTIONS:
            raise Fenced(ErrorCode(code).name)
        if code != ErrorCode.CONCURRENT_TRANSACTIONS:
            self._client.forget_coordinator(TRANSACTION, self._id)
        await self._client.back_off()

    def begin(self) -> str:
        self._count += 1
        self._transaction = f"{self._client.name}/tx{self._count}"
        self._added = set()
        return self._transaction

    @property
    def is_empty(self) -> bool:
        return not self._added

    # What a transaction has

    async def send(self, place: Place, values: list[str]) -> None:
        """Send one batch; Spoilt or Fenced when it is not acknowledged."""
        sends = [self._begin_send(place, value) for value in values]
        batch = Batch(sends, self._identity.take(place, len(sends)))
        outcome = Outcome.FAILED
        try:
            if self._version == 1 and place not in self._added:
                await self._add_partition(place)
            self._added.add(place)
            outcome = Outcome.UNKNOWN
            base_offset = await self._produce(place, batch)
            outcome = Outcome.OK
            if base_offset >= 0:
                for delta, send in enumerate(sends):
                    send.offset = base_offset + delta
        finally:
            for send in sends:
                self._history.end(send, outcome)

    def _begin_send(self, place: Place, value: str) -> Send:
        counted = (self._identity.producer_id, place)
        self._numbers[counted] = number = self._numbers.get(counted, -1) + 1
        return self._history.begin(
            Send(
                process=self._client.name,
                topic=place[0],
                partition=place[1],
                value=value,
                producer=f"{self._client.name}/{self._identity.producer_id}",
                sequence=number,
                transaction=self._transaction,
            )
        )

    async def _produce(self, place: Place, batch: Batch) -> int:
        deadline = self._client.now + self._delivery_seconds
        while True:
            try:
                answer = await produce(self._client, self._identity, place, batch)
            except OSError:
                self._is_unsure = True
                code: int = ErrorCode.NETWORK_EXCEPTION
            else:
                code = answer.error_code
                if code == ErrorCode.NONE:
                    return answer.base_offset
                if code == ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
                    return -1
            if code in OF_GROUPS or self._client.now > deadline:
                self._is_unsure = True
                raise Spoilt
            if code not in RETRIABLE and code != ErrorCode.CONCURRENT_TRANSACTIONS:
                raise Fenced(ErrorCode(code).name)
            await self._client.renew(place)

    async def _add_partition(self, place: Place) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._identity.producer_id,
            v3_and_below_producer_epoch=self._identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=place[0], partitions=[place[1]])],
        )
        while True:
            answer = await self._ask_once(request)
            if answer is None:
                continue
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            if result.partition_error_code == ErrorCode.NONE:
                return
            await self._refused(result.partition_error_code)

    async def commit_offset(self, member: Member, place: Place, offset: int) -> None:
        """Commit an offset of a group with the transaction."""
        operation = self._history.begin(
            CommitOffset(
                process=self._client.name,
                group=member.group,
                member=member.member_id,
                epoch=member.epoch,
                topic=place[0],
                partition=place[1],
                offset=offset,
                transaction=self._transaction,
            )
        )
        outcome = Outcome.UNKNOWN
        try:
            if self._version == 1 and member.group not in self._added:
                await self._add_offsets(member.group)
            self._added.add(member.group)
            await self._commit_offset(member, place, offset)
            outcome = Outcome.OK
        finally:
            self._history.end(operation, outcome)

    async def _add_offsets(self, group: str) -> None:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            group_id=group,
        )
        while True:
            answer = await self._ask_once(request)
            if answer is None:
                continue
            if answer.error_code == ErrorCode.NONE:
                return
            await self._refused(answer.error_code)

    async def _commit_offset(self, member: Member, place: Place, offset: int) -> None:
        committed = TxnOffsetCommitRequestPartition(
            partition_index=place[1], committed_offset=offset
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self._id,
            group_id=member.group,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            generation_id=member.epoch,
            member_id=member.member_id,
            topics=[TxnOffsetCommitRequestTopic(name=place[0], partitions=[committed])],
        )
        deadline = self._client.now + DELIVERY_SECONDS
        while self._client.now < deadline:
            try:
                answer = await self._client.ask_coordinator(GROUP, member.group, request)
            except OSError:
                self._is_unsure = True
                await self._client.back_off()
                continue
            code = answer.topics[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                return
            await self._refused(code)
            self._client.forget_coordinator(GROUP, member.group)
        raise Spoilt

    async def _ask_once(self, request: Request[R]) -> R | None:
        """Ask the coordinator; None when it had no answer, and another attempt may."""
        try:
            return await self._client.ask_coordinator(TRANSACTION, self._id, request)
        except OSError:
            self._is_unsure = True
            await self._client.back_off()
            return None

    # Its end

    async def end(self, *, commit: bool) -> Outcome:
        """End the transaction; Fenced when the producer cannot go on."""
        operation = self._history.begin(
            EndTransaction(process=self._client.name, transaction=self._transaction, commit=commit)
        )
        outcome = Outcome.UNKNOWN
        try:
            outcome = await self._end(commit=commit)
        finally:
            self._history.end(operation, outcome)
        if outcome is Outcome.FAILED:
            raise Fenced
        if outcome is Outcome.UNKNOWN or (self._version == 1 and self._is_unsure):
            await self.init()
        return outcome

    async def _end(self, *, commit: bool) -> Outcome:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._identity.producer_id,
            producer_epoch=self._identity.epoch,
            committed=commit,
        )
        deadline = self._client.now + DELIVERY_SECONDS
        failed = Outcome.FAILED
        while self._client.now < deadline:
            answer = await self._ask_once(request)
            if answer is None:
                failed = Outcome.UNKNOWN
                continue
            if answer.error_code == ErrorCode.NONE:
                self._ended(answer)
                return Outcome.OK
            if answer.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
                if answer.error_code not in RETRIABLE:
                    return failed
                failed = Outcome.UNKNOWN  # some of these come after the append
            await self._refused(answer.error_code)
        return Outcome.UNKNOWN

    def _ended(self, answer: EndTxnResponse) -> None:
        if self._version == 1 or answer.producer_id < 0:
            return
        sequences_go_on = answer.producer_id == self._identity.producer_id
        sequences_go_on &= answer.producer_epoch == self._identity.epoch
        if not sequences_go_on:
            self._identity = Identity(answer.producer_id, answer.producer_epoch, self._id)
