"""Batches and the history of epochs bear witness of each other, without all of them being read."""

from itertools import groupby, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.storage import logs

from ottla.common.errors import CorruptMessage
from ottla.records.batch import batches
from ottla.storage import offset_index
from ottla.storage.checkpoints import LEADER_EPOCHS, encode_epochs
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem

EPOCH_POSITION = 12
"""Of the leader epoch in a batch."""
HISTORY = f"{logs.DIRECTORY}/{LEADER_EPOCHS}"


def written(epochs: list[int], **changed: object) -> MemoryFilesystem:
    """A log with a batch of one record for each of ``epochs``, closed."""
    files = logs.filesystem()
    log = logs.open_log(files, logs.settings(**changed))
    for epoch in epochs:
        logs.append(log, bytes(30), epoch=epoch)
    log.close(logs.NOW)
    return files


def opened(files: MemoryFilesystem, count: int) -> Log:
    log = logs.open_log(files, recovery_point=count)
    log.set_high_watermark(log.log_end_offset)
    return log


def history(epochs: list[int]) -> list[EpochEntry]:
    return [EpochEntry(epoch, epochs.index(epoch)) for epoch, _ in groupby(epochs)]


@given(
    lengths=st.lists(st.integers(2, 30), min_size=1, max_size=6),
    size=st.sampled_from([400, 1000, 100_000]),
    interval=st.sampled_from([0, 200, 100_000]),
    data=st.data(),
)
def test_a_history_that_batches_contradict_is_made_anew(
    lengths: list[int], size: int, interval: int, data: st.DataObject
) -> None:
    """An entry is lost, or begins elsewhere."""
    epochs = [number * 3 + 1 for number, length in enumerate(lengths) for _ in range(length)]
    files = written(epochs, internal_segment_bytes=size, index_interval_bytes=interval)
    right = history(epochs)
    wrong = list(right)
    number = data.draw(st.integers(0, len(right) - 1))
    if number and data.draw(st.booleans()):
        del wrong[number]
    else:
        bounds = [-1, *(each.start_offset for each in right), len(epochs)]
        start = data.draw(st.integers(bounds[number] + 1, bounds[number + 2] - 1))
        wrong[number] = EpochEntry(right[number].epoch, start)
    files.write(HISTORY, encode_epochs(wrong))
    log = opened(files, len(epochs))
    assert [record.offset for record in logs.read_all(log)] == list(range(len(epochs)))
    if wrong[0] == right[0]:  # what no entry tells of contradicts nothing
        assert log.epochs.entries == right


@given(
    lengths=st.lists(st.integers(2, 12), min_size=1, max_size=5),
    size=st.sampled_from([400, 1000, 100_000]),
    interval=st.sampled_from([0, 200, 100_000]),
    bit=st.integers(0, 30),
    data=st.data(),
)
def test_a_single_batch_that_contradicts_is_damaged(
    lengths: list[int], size: int, interval: int, bit: int, data: st.DataObject
) -> None:
    epochs = [number * 3 + 1 for number, length in enumerate(lengths) for _ in range(length)]
    files = written(epochs, internal_segment_bytes=size, index_interval_bytes=interval)
    offset = data.draw(st.integers(0, len(epochs) - 2))  # of the last one nothing is told behind
    changed = epochs[offset] ^ (1 << bit)
    before, behind = epochs[offset - 1] if offset else 0, epochs[offset + 1]
    if before <= changed <= behind:
        return  # it could be so
    name = max(n for n in _segments(files) if int(n[:20]) <= offset)
    content = bytearray(files.read(f"{logs.DIRECTORY}/{name}"))
    at, _ = list(batches(bytes(content)))[offset - int(name[:20])]
    content[at + EPOCH_POSITION : at + EPOCH_POSITION + 4] = changed.to_bytes(4, "big")
    files.write(f"{logs.DIRECTORY}/{name}", bytes(content))
    log = opened(files, len(epochs))
    with pytest.raises(CorruptMessage):
        logs.read_bytes(log, offset)
    assert log.epochs.entries == history(epochs)
    for each in {0, len(epochs) - 1} - {offset}:
        assert logs.records_of(logs.read_bytes(log, each))[0].offset == each


def test_between_batches_without_epochs_there_may_be_some_with() -> None:
    """Where the message format was an older one again for a while."""
    epochs = [-1] + [1] * 4 + [4] * 6 + [-1] * 6
    files = logs.filesystem()
    log = logs.open_log(files, logs.settings(internal_segment_bytes=400))
    for offset, epoch in enumerate(epochs):
        data = logs.batch([bytes(30)], base_offset=offset, leader_epoch=epoch)
        log.append_as_follower(data, now_ms=logs.NOW)
    log.close(logs.NOW)
    assert len(_segments(files)) > 3
    files.write(HISTORY, encode_epochs([EpochEntry(1, 1), EpochEntry(4, 3)]))
    log = opened(files, len(epochs))
    assert log.end_offset_for_epoch(1) == (1, 5)
    assert log.epochs.entries == [EpochEntry(1, 1), EpochEntry(4, 5)]


def test_an_index_that_leads_into_a_record_is_no_witness() -> None:
    """What stands there looks like a batch: somebody keeps batches in records."""
    files = logs.filesystem()
    log = logs.open_log(files, logs.settings(internal_segment_bytes=3000))
    kept = bytes(logs.batch([b"x"], base_offset=50, leader_epoch=9))
    epochs = [1] * 6 + [4] * 24
    for epoch in epochs:
        logs.append(log, kept, epoch=epoch)
    first = log.segments[0]
    path, inside = first.offset_index.path, files.read(first.path).find(kept)
    log.close(logs.NOW)
    files.write(path, offset_index.ENTRY.pack(12, inside))
    files.write(HISTORY, encode_epochs([EpochEntry(1, 0), EpochEntry(4, 4)]))
    log = opened(files, len(epochs))
    assert log.end_offset_for_epoch(1) == (1, 6)
    assert log.epochs.entries == history(epochs)


def _segments(files: MemoryFilesystem) -> list[str]:
    return [name for name in files.list_directory(logs.DIRECTORY) if name.endswith(".log")]


@pytest.mark.parametrize("size", [2000, 1 << 20])
def test_a_batch_of_another_epoch_does_not_cost_a_look_at_all(size: int) -> None:
    """Ten times as many batches cost a few more reads."""
    reads = []
    for count in (200, 2000):
        epochs = [1] * (count // 3) + [4] * (count - count // 3)
        files = written(epochs, internal_segment_bytes=size, index_interval_bytes=0)
        files.write(HISTORY, encode_epochs([EpochEntry(1, 0), EpochEntry(4, count // 2)]))
        log = opened(files, count)
        seen: list[str] = []

        def note(operation: str, path: str, seen: list[str] = seen) -> None:
            if operation == "read" and path.endswith(".log"):
                seen.append(path)

        files.fail = note
        assert log.end_offset_for_epoch(1) == (1, count // 3)
        reads.append(len(seen))
    assert all(many < few + 20 for few, many in pairwise(reads)), reads


def test_of_two_batches_that_contradict_each_other_the_history_bears_out_one() -> None:
    files = written([1, 1, 4, 4])
    path = f"{logs.DIRECTORY}/{_segments(files)[0]}"
    content = bytearray(files.read(path))
    at, _ = list(batches(bytes(content)))[1]
    content[at + EPOCH_POSITION + 3] = 0
    files.write(path, bytes(content))
    log = opened(files, 4)
    with pytest.raises(CorruptMessage):
        logs.read_bytes(log, 1)
    assert log.epochs.entries == history([1, 1, 4, 4])
