"""Sequences, epochs and transactions of producers, as Kafka's brokers judge them."""

from typing import NamedTuple

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.storage import logs

from ottla.common.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from ottla.records.control import transaction_marker_batch
from ottla.records.rules import AppendOrigin
from ottla.storage.log import Log
from ottla.storage.producer_snapshots import CorruptSnapshot, decode_snapshot, encode_snapshot
from ottla.storage.producer_state import BatchMetadata, ProducerEntry
from ottla.storage.results import AppendInfo
from ottla.testing.files import MemoryFilesystem

LAST_SEQUENCE = (1 << 31) - 1


@pytest.fixture
def files() -> MemoryFilesystem:
    return logs.filesystem()


@pytest.fixture
def log(files: MemoryFilesystem) -> Log:
    return logs.open_log(files)


def produce(
    log: Log,
    sequence: int,
    count: int = 1,
    *,
    producer: int = 1,
    epoch: int = 0,
    transactional: bool = False,
    now_ms: int = logs.NOW,
) -> AppendInfo:
    data = logs.batch(
        [b"v"] * count,
        producer_id=producer,
        producer_epoch=epoch,
        sequence=sequence,
        transactional=transactional,
        timestamps=[now_ms] * count,
    )
    return logs.append_batch(log, data, now_ms=now_ms)


def mark(
    log: Log,
    *,
    commit: bool,
    producer: int = 1,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    transaction_version: int = 0,
) -> AppendInfo:
    data = transaction_marker_batch(
        commit=commit,
        producer_id=producer,
        producer_epoch=epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp=logs.NOW,
    )
    return log.append_as_leader(
        data,
        0,
        len(data),
        leader_epoch=0,
        now_ms=logs.NOW,
        origin=AppendOrigin.COORDINATOR,
        transaction_version=transaction_version,
    )


# Sequences


def test_the_next_sequence_is_taken(log: Log) -> None:
    produce(log, 0, 3)
    assert produce(log, 3).first_offset == 3


def test_a_repeated_batch_is_answered_with_its_offsets(log: Log) -> None:
    for number in range(5):
        produce(log, 2 * number, 2)
    size = log.size()
    for number in range(5):
        info = produce(log, 2 * number, 2)
        assert info.is_duplicate
        assert (info.first_offset, info.last_offset) == (2 * number, 2 * number + 1)
    assert log.size() == size
    produce(log, 10)
    with pytest.raises(OutOfOrderSequenceNumber):
        produce(log, 0, 2)


def test_a_batch_that_repeats_only_a_part_is_out_of_order(log: Log) -> None:
    produce(log, 0, 3)
    with pytest.raises(OutOfOrderSequenceNumber):
        produce(log, 0, 2)
    with pytest.raises(OutOfOrderSequenceNumber):
        produce(log, 1, 2)


def test_a_gap_is_out_of_order(log: Log) -> None:
    produce(log, 0)
    with pytest.raises(OutOfOrderSequenceNumber):
        produce(log, 2)
    assert log.log_end_offset == 1


def test_an_unknown_producer_may_begin_anywhere(log: Log) -> None:
    assert produce(log, 1234).first_offset == 0


def test_sequences_go_on_at_zero(log: Log) -> None:
    produce(log, LAST_SEQUENCE - 1, 2)
    assert produce(log, 0).first_offset == 2
    assert produce(log, LAST_SEQUENCE - 1, 2).is_duplicate
    produce(log, LAST_SEQUENCE, 3, producer=2)
    assert produce(log, LAST_SEQUENCE, 3, producer=2).is_duplicate
    assert produce(log, 2, producer=2).first_offset == 6


def test_a_new_epoch_begins_at_zero_and_fences_the_old_one(log: Log) -> None:
    produce(log, 0, epoch=1)
    with pytest.raises(OutOfOrderSequenceNumber):
        produce(log, 1, epoch=2)
    produce(log, 0, epoch=2)
    with pytest.raises(InvalidProducerEpoch):
        produce(log, 1, epoch=1)
    assert produce(log, 1, epoch=2).first_offset == 2


def test_a_follower_takes_what_its_leader_took(log: Log) -> None:
    for base_offset, sequence in ((0, 0), (1, 7), (2, 3)):
        data = logs.batch(
            [b"v"],
            producer_id=1,
            producer_epoch=0,
            sequence=sequence,
            base_offset=base_offset,
            leader_epoch=0,
        )
        log.append_as_follower(bytes(data), now_ms=logs.NOW)
    assert produce(log, 4).first_offset == 3


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("rolled", [True, False])
def test_after_a_restart_each_of_the_last_five_batches_is_known(
    files: MemoryFilesystem, clean: bool, rolled: bool
) -> None:
    log = logs.open_log(files)
    for number in range(7):
        for producer in (1, 2):
            produce(log, 2 * number, 2, producer=producer)
        if rolled and number == 4:
            log.roll(logs.NOW)
            log.flush(logs.NOW)
    if clean:
        log.close(logs.NOW)
    files.kill()
    log = logs.open_log(files, clean=clean, recovery_point=log.recovery_point)
    for number in range(2, 7):
        for producer in (1, 2):
            info = produce(log, 2 * number, 2, producer=producer)
            assert info.is_duplicate
            assert info.first_offset == 4 * number + 2 * (producer - 1)
    with pytest.raises(OutOfOrderSequenceNumber):
        produce(log, 2, 2)
    assert produce(log, 14).first_offset == 28


def test_after_a_truncation_the_batches_before_it_are_known(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    for sequence in range(8):
        produce(log, sequence)
        if sequence == 4:
            log.roll(logs.NOW)
    log.truncate_to(6, logs.NOW)
    assert [produce(log, sequence).first_offset for sequence in range(1, 6)] == [1, 2, 3, 4, 5]


def test_what_is_sent_in_another_epoch_or_before_a_gap_is_not_recalled(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files)
    produce(log, 0, epoch=0)
    for producer, first in ((1, 0), (2, 0)):
        produce(log, first, epoch=1, producer=producer)
    log.producers.producers.clear()  # both are expired, and go on elsewhere
    for producer, first in ((1, 1), (2, 7)):
        produce(log, first, epoch=1, producer=producer)
    log.close(logs.NOW)
    known = logs.open_log(files).producers.producers
    assert [batch.first_offset for batch in known[1].batches] == [1, 3]
    assert [batch.first_offset for batch in known[2].batches] == [4]


def test_an_idle_producer_is_forgotten(log: Log) -> None:
    produce(log, 0)
    produce(log, 0, producer=2, transactional=True)
    later = logs.NOW + 86_400_000
    assert len(log.active_producers(later - 1)) == 2
    # A producer with an open transaction is not.
    assert [entry.producer_id for entry in log.active_producers(later)] == [2]
    assert produce(log, 9, now_ms=later).first_offset == 2


# Transactions


def test_the_last_stable_offset_stands_at_the_first_open_transaction(log: Log) -> None:
    produce(log, 0, 2, producer=9)
    produce(log, 0, producer=1, transactional=True)
    produce(log, 0, producer=2, transactional=True)
    log.set_high_watermark(4)
    assert log.last_stable_offset == 2
    mark(log, commit=True, producer=1)
    log.set_high_watermark(4)
    assert log.last_stable_offset == 2
    log.set_high_watermark(5)
    assert log.last_stable_offset == 3
    mark(log, commit=False, producer=2)
    log.set_high_watermark(6)
    assert log.last_stable_offset == 6


def test_aborted_transactions_are_found_between_offsets(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    produce(log, 0, producer=1, transactional=True)
    produce(log, 0, producer=2, transactional=True)
    mark(log, commit=False, producer=1)
    mark(log, commit=False, producer=2)
    log.roll(logs.NOW)
    produce(log, 1, producer=1, transactional=True)
    mark(log, commit=True, producer=1)
    produce(log, 2, producer=1, transactional=True)
    mark(log, commit=False, producer=1)
    expected = {
        (0, 8): [(1, 0), (2, 1), (1, 6)],
        (0, 1): [(1, 0)],
        (1, 2): [(1, 0), (2, 1)],
        (3, 4): [(2, 1)],
        (4, 6): [],
        (6, 7): [(1, 6)],
    }
    for clean in (True, True, False):
        for (offset, upper), transactions in expected.items():
            assert log.aborted_transactions(offset, upper) == transactions
        log.close(logs.NOW)
        log = logs.open_log(files, clean=clean)


def test_the_transaction_index_is_kafkas(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    produce(log, 0, producer=258, transactional=True)
    produce(log, 0, producer=5, transactional=True)
    mark(log, commit=False, producer=258)
    data = files.read(f"{logs.DIRECTORY}/00000000000000000000.txnindex")
    numbers = [258, 0, 2, 1]
    assert data == b"\0\0" + b"".join(number.to_bytes(8, "big") for number in numbers)


def test_within_a_transaction_nothing_else_is_written(log: Log) -> None:
    produce(log, 0, transactional=True)
    with pytest.raises(InvalidTxnState):
        produce(log, 1, transactional=False)


def test_a_marker_without_a_transaction_leaves_no_trace(log: Log) -> None:
    mark(log, commit=False)
    log.set_high_watermark(1)
    assert log.last_stable_offset == 1
    assert log.aborted_transactions(0, 1) == []


def test_markers_of_a_replaced_coordinator_are_refused(log: Log) -> None:
    produce(log, 0, transactional=True)
    mark(log, commit=True, coordinator_epoch=5)
    with pytest.raises(TransactionCoordinatorFenced):
        mark(log, commit=True, coordinator_epoch=4)


def test_markers_of_an_older_epoch_are_refused(log: Log) -> None:
    produce(log, 0, epoch=3, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        mark(log, commit=True, epoch=2)
    mark(log, commit=True, epoch=3)


def test_from_version_2_on_a_marker_must_bring_a_new_epoch(log: Log) -> None:
    # KIP-890: a marker that was delayed must not end the next transaction.
    produce(log, 0, epoch=3, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        mark(log, commit=True, epoch=3, transaction_version=2)
    mark(log, commit=True, epoch=4, transaction_version=2)
    mark(log, commit=True, epoch=4, transaction_version=2)
    produce(log, 0, epoch=4, transactional=True)
    with pytest.raises(InvalidProducerEpoch):
        mark(log, commit=True, epoch=4, transaction_version=2)


def test_a_truncated_marker_opens_its_transaction_again(log: Log) -> None:
    produce(log, 0, transactional=True)
    mark(log, commit=False)
    log.set_high_watermark(2)
    assert log.last_stable_offset == 2
    log.truncate_to(1, logs.NOW)
    log.set_high_watermark(1)
    assert log.last_stable_offset == 0
    assert log.aborted_transactions(0, 1) == []


def test_an_open_transaction_survives_a_restart(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    produce(log, 0, transactional=True)
    log.roll(logs.NOW)
    produce(log, 0, producer=2)
    for clean in (True, False):
        log.close(logs.NOW)
        log = logs.open_log(files, clean=clean)
        log.set_high_watermark(2)
        assert log.last_stable_offset == 0
    mark(log, commit=True)
    log.set_high_watermark(3)
    assert log.last_stable_offset == 3


# Snapshots


def test_a_snapshot_of_records_that_were_truncated_is_not_used_again(
    files: MemoryFilesystem,
) -> None:
    log = logs.open_log(files)
    produce(log, 0, producer=1)
    produce(log, 0, producer=2)
    log.close(logs.NOW)
    log = logs.open_log(files)
    log.truncate_to(1, logs.NOW)
    for producer in (3, 4, 5):
        produce(log, 0, producer=producer)
    log.truncate_to(3, logs.NOW)
    assert sorted(log.producers.producers) == [1, 3, 4]


@pytest.mark.parametrize("clean", [True, False])
def test_a_producer_is_known_after_a_restart_though_all_its_records_have_expired(
    files: MemoryFilesystem, clean: bool
) -> None:
    """Its answer may have been lost: what it sends again is written once."""
    settings = logs.settings(retention_ms=1000)
    log = logs.open_log(files, settings)
    produce(log, 0, 3)
    log.set_high_watermark(3)
    log.delete_old_segments(logs.NOW + 5000)
    assert (log.log_start_offset, log.log_end_offset) == (3, 3)
    for _ in range(2):
        log.close(logs.NOW)
        log = logs.open_log(files, settings, clean=clean)
        produce(log, 0, 3)
        assert log.log_end_offset == 3


def test_snapshots_of_no_segment_are_removed_except_the_last(files: MemoryFilesystem) -> None:
    log = logs.open_log(files)
    for sequence in range(10):
        produce(log, sequence)
        if sequence == 4:
            log.roll(logs.NOW)
    log.close(logs.NOW)
    for offset in (2, 7, 99):
        files.write(f"{logs.DIRECTORY}/{offset:020d}.snapshot", encode_snapshot([]))
    logs.open_log(files)
    found = [n[18:20] for n in files.list_directory(logs.DIRECTORY) if n.endswith(".snapshot")]
    assert found == ["05", "10"]


def test_an_empty_snapshot_is_kafkas() -> None:
    assert encode_snapshot([]) == bytes.fromhex("000148674bc700000000")
    assert decode_snapshot(encode_snapshot([])) == []


@pytest.mark.parametrize("damage", [b"", b"\0\1", b"\0\2" + bytes(8), bytes(10)])
def test_a_damaged_snapshot_is_refused(damage: bytes) -> None:
    with pytest.raises(CorruptSnapshot):
        decode_snapshot(damage)


def test_a_snapshot_keeps_the_last_batch() -> None:
    entry = ProducerEntry(5, 2, 7, 101, 40)
    entry.batches = [BatchMetadata(10, 50, 3, 100), BatchMetadata(11, 51, 0, 101)]
    (found,) = decode_snapshot(encode_snapshot([entry]))
    assert found.batches == [BatchMetadata(11, 51, 0, 101)]
    assert (found.producer_id, found.epoch, found.coordinator_epoch) == (5, 2, 7)
    assert (found.last_timestamp, found.transaction_first_offset) == (101, 40)


# Any history


class Sent(NamedTuple):
    epoch: int
    first: int
    last: int
    offset: int


class ProducerMachine(RuleBasedStateMachine):
    """One producer that sends right and wrong batches, against the rules written down simply."""

    def __init__(self) -> None:
        super().__init__()
        self.log = logs.open_log(logs.filesystem())
        self.epoch = -1
        self.sent: list[Sent] = []

    @rule(epoch=st.integers(0, 3), first=st.integers(0, 12), count=st.integers(1, 3))
    def send(self, epoch: int, first: int, count: int) -> None:
        self._send(epoch, first, count)

    @rule(count=st.integers(1, 3))
    def send_next(self, count: int) -> None:
        current = [sent for sent in self.sent if sent.epoch == self.epoch]
        self._send(max(self.epoch, 0), current[-1].last + 1 if current else 0, count)

    @rule(back=st.integers(1, 8))
    def send_again(self, back: int) -> None:
        if self.sent:
            sent = self.sent[-min(back, len(self.sent))]
            self._send(sent.epoch, sent.first, sent.last - sent.first + 1)

    def _send(self, epoch: int, first: int, count: int) -> None:
        current = [sent for sent in self.sent if sent.epoch == self.epoch]
        same = [
            s
            for s in current[-5:]
            if (s.epoch, s.first, s.last) == (epoch, first, first + count - 1)
        ]
        end = self.log.log_end_offset
        if self.epoch >= 0 and epoch < self.epoch:
            with pytest.raises(InvalidProducerEpoch):
                produce(self.log, first, count, epoch=epoch)
        elif epoch == self.epoch and same and first != current[-1].last + 1:
            info = produce(self.log, first, count, epoch=epoch)
            assert info.is_duplicate
            assert info.first_offset == same[0].offset
        elif self.epoch >= 0 and first != (current[-1].last + 1 if epoch == self.epoch else 0):
            with pytest.raises(OutOfOrderSequenceNumber):
                produce(self.log, first, count, epoch=epoch)
        else:
            info = produce(self.log, first, count, epoch=epoch)
            assert not info.is_duplicate
            assert info.first_offset == end
            self.epoch = epoch
            self.sent.append(Sent(epoch, first, first + count - 1, end))
            end += count
        assert self.log.log_end_offset == end

    @invariant()
    def five_batches_are_kept(self) -> None:
        entry = self.log.producers.producers.get(1)
        kept = [] if entry is None else [(b.first_sequence, b.last_sequence) for b in entry.batches]
        current = [(s.first, s.last) for s in self.sent if s.epoch == self.epoch]
        assert kept == current[-5:]


TestProducer = ProducerMachine.TestCase
TestProducer.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
