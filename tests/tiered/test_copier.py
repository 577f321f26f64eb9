"""A copy is whole or is known not to be: whatever fails, wherever it fails."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.storage import logs
from tests.tiered.remote import CHUNK, PARTITION, describe, files_of, fill, tiered

from ottla.common.errors import CorruptMessage
from ottla.records.batch import batches
from ottla.storage.files import OsFilesystem
from ottla.storage.log import Log
from ottla.testing.files import MemoryFilesystem
from ottla.testing.remote_store import MemoryStore
from ottla.tiered.copier import SegmentFiles, download, list_segments, remove, upload
from ottla.tiered.layout import DATA_SUFFIXES, MANIFEST_SUFFIX, object_key
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import RemoteLogSegment
from ottla.tiered.store import RemoteStoreError


class Source:
    """A closed segment that waits to be copied."""

    def __init__(self) -> None:
        self.filesystem: MemoryFilesystem = logs.filesystem()
        self.log: Log = logs.open_log(self.filesystem, logs.settings(internal_segment_bytes=20_000))
        fill(self.log)
        self.log.roll(logs.NOW)
        self.log.flush(logs.NOW)
        first = self.log.segments[0]
        self.segment: RemoteLogSegment = describe(self.log, first, 7)
        self.files: SegmentFiles = files_of(self.filesystem, self.log, first)

    def store(self) -> MemoryStore:
        return MemoryStore(self.filesystem)

    def upload(self, store: MemoryStore) -> None:
        upload(store, self.segment, self.files, chunk_size=CHUNK)

    def check(self, store: MemoryStore) -> bool:
        """Either the copy is whole, or it is an orphan that is seen and can be removed."""
        found = list(list_segments(store, PARTITION))
        whole = object_key(self.segment, MANIFEST_SUFFIX) in store.objects
        if whole:
            manifest = read_manifest(store, self.segment)
            for suffix in manifest.objects:
                assert manifest.verify(suffix, store.objects[object_key(self.segment, suffix)])
            assert {".log", ".index", ".timeindex"} <= manifest.objects.keys()
        assert len(found) == (1 if store.objects else 0)
        if found:
            assert found[0].is_whole is whole
            assert found[0].segment_id == self.segment.segment_id
            orphaned = self.store()
            orphaned.objects = dict(store.objects)
            remove(orphaned, found[0])
            assert orphaned.objects == {}
        return whole


@pytest.fixture(scope="module")
def source() -> Source:
    return Source()


def operations_of(source: Source, work: Callable[[MemoryStore], None], store: MemoryStore) -> int:
    before = store.operations
    work(store)
    return store.operations - before


def test_an_upload_that_fails_anywhere_is_whole_or_an_orphan(source: Source) -> None:
    count = operations_of(source, source.upload, source.store())
    assert count >= 7
    whole = 0
    for takes_effect in (False, True):
        for number in range(count):
            store = source.store()
            store.fail_at(number, takes_effect=takes_effect)
            with pytest.raises(RemoteStoreError):
                source.upload(store)
            whole += source.check(store)
            source.upload(store)
            assert source.check(store)
    assert whole == 1, "only the answer to the last put may be lost without harm"


def test_a_removal_that_fails_anywhere_is_never_whole_again_and_can_be_repeated(
    source: Source,
) -> None:
    store = source.store()
    source.upload(store)
    objects = dict(store.objects)

    def work(store: MemoryStore) -> None:
        remove(store, source.segment)

    count = operations_of(source, work, store)
    for takes_effect in (False, True):
        for number in range(count):
            store = source.store()
            store.objects = dict(objects)
            store.fail_at(number, takes_effect=takes_effect)
            with pytest.raises(RemoteStoreError):
                remove(store, source.segment)
            whole = source.check(store)
            assert whole is (number == 0 and not takes_effect)
            remove(store, source.segment)
            assert store.objects == {}


def test_an_upload_that_is_cancelled_is_an_orphan(source: Source) -> None:
    class Cancelled(Exception):
        pass

    told: list[int] = []

    def cancel(size: int) -> None:
        told.append(size)
        if len(told) == 3:
            raise Cancelled

    store = source.store()
    with pytest.raises(Cancelled):
        upload(store, source.segment, source.files, cancel)
    assert not source.check(store)


def test_an_upload_tells_of_every_byte_before_it_is_sent(source: Source) -> None:
    told: list[int] = []
    upload(source.store(), source.segment, source.files, told.append)
    paths = source.files.paths().values()
    assert sum(told) == sum(source.filesystem.size(path) for path in paths)


def test_a_store_that_keeps_less_than_it_was_given_is_noticed(source: Source) -> None:
    class Forgetful(MemoryStore):
        def put_file(self, key: str, path: str, size: int, progress: object = None) -> None:
            super().put_file(key, path, size)
            if key.endswith(".timeindex"):
                self.objects[key] = self.objects[key][:-1]

    store = Forgetful(source.filesystem)
    with pytest.raises(RemoteStoreError, match="timeindex has"):
        upload(store, source.segment, source.files)
    assert not source.check(store)


@settings(deadline=None)
@given(st.data())
def test_a_damaged_segment_is_not_copied(source: Source, data: st.DataObject) -> None:
    """Offsets and epochs are outside a batch's checksum; order finds most of the former."""
    filesystem = source.filesystem.after_kill()
    whole = bytearray(filesystem.read(source.files.log))
    bit = data.draw(st.integers(8 * 16, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    filesystem.write(source.files.log, bytes(whole))
    store = MemoryStore(filesystem)
    files = source.files._replace(filesystem=filesystem)
    try:
        upload(store, source.segment, files)
    except CorruptMessage:
        assert store.objects == {}
    else:
        header = _byte_of_a_batch(source, bit // 8)
        assert header < 8 or 12 <= header < 16


def _byte_of_a_batch(source: Source, position: int) -> int:
    """How far into its batch a byte lies."""
    whole = source.filesystem.read(source.files.log)
    return next(position - start for start, size in batches(whole) if position < start + size)


def test_a_segment_that_is_cut_or_empty_or_too_long_is_not_copied(source: Source) -> None:
    whole = source.filesystem.read(source.files.log)
    for data in (whole[:-1], b"", whole + b"\0", whole + whole[:100]):
        for size in (len(data), len(whole)):
            if data == whole:
                continue
            filesystem = source.filesystem.after_kill()
            filesystem.write(source.files.log, data)
            store = MemoryStore(filesystem)
            files = source.files._replace(filesystem=filesystem)
            with pytest.raises(CorruptMessage):
                upload(store, source.segment._replace(size_in_bytes=size), files)
            assert store.objects == {}


def test_a_segment_with_other_offsets_than_it_is_said_to_have_is_not_copied(source: Source) -> None:
    segment = source.segment
    wrong = (
        segment._replace(start_offset=segment.start_offset + 1),
        segment._replace(end_offset=segment.end_offset - 1),
    )
    for each in wrong:
        with pytest.raises(CorruptMessage, match="are expected"):
            upload(source.store(), each, source.files)


def test_a_segment_whose_batches_are_out_of_order_is_not_copied(source: Source) -> None:
    whole = source.filesystem.read(source.files.log)
    (_, first), (start, second) = list(batches(whole))[:2]
    filesystem = source.filesystem.after_kill()
    swapped = whole[start : start + second] + whole[:first] + whole[start + second :]
    filesystem.write(source.files.log, swapped)
    files = source.files._replace(filesystem=filesystem)
    with pytest.raises(CorruptMessage, match="are expected"):
        upload(source.store(), source.segment, files)


def test_a_batch_larger_than_a_piece_is_copied() -> None:
    def one_large(log: Log) -> None:
        logs.append(log, b"x" * 3_000_000)
        logs.append(log, b"small")

    tier = tiered(one_large, internal_segment_bytes=10_000_000, max_message_bytes=5_000_000)
    (stored,) = list_segments(tier.store, PARTITION)
    assert stored.sizes[".log"] > 3_000_000


def test_segments_are_listed_by_offset_and_other_objects_are_passed_over(source: Source) -> None:
    tier = tiered(fill, internal_segment_bytes=3_000)
    prefix = object_key(tier.segments[0], ".log").rpartition("/")[0]
    tier.store.put(f"{prefix}/notes.txt", b"mine")
    found = list(list_segments(tier.store, PARTITION))
    assert [(each.start_offset, each.segment_id) for each in found] == [
        (each.start_offset, each.segment_id) for each in tier.segments
    ]
    assert all(each.is_whole for each in found)
    assert all(each.sizes[".log"] == known.size_in_bytes
               for each, known in zip(found, tier.segments, strict=True))  # fmt: skip
    assert list(list_segments(tier.store, PARTITION._replace(partition=1))) == []


def test_a_segment_comes_back_byte_for_byte_under_kafkas_names(
    source: Source, tmp_path: Path
) -> None:
    store = source.store()
    source.upload(store)
    manifest = download(store, source.segment, OsFilesystem(), str(tmp_path / "topic-0"))
    assert manifest.segment._replace(state=source.segment.state) == source.segment
    base, end = source.segment.start_offset, source.segment.end_offset + 1
    expected = {
        f"{base:020}.log": source.files.log,
        f"{base:020}.index": source.files.offset_index,
        f"{base:020}.timeindex": source.files.time_index,
        f"{end:020}.snapshot": source.files.producer_snapshot,
    }
    for name, path in expected.items():
        assert path is not None
        assert (tmp_path / "topic-0" / name).read_bytes() == source.filesystem.read(path)
    names = {path.name for path in (tmp_path / "topic-0").iterdir()}
    assert names == {*expected, "leader-epoch-checkpoint"}


@settings(deadline=None)
@given(st.data())
def test_a_damaged_object_does_not_come_back(source: Source, data: st.DataObject) -> None:
    store = source.store()
    source.upload(store)
    suffix = data.draw(st.sampled_from([*DATA_SUFFIXES, MANIFEST_SUFFIX]))
    key = object_key(source.segment, suffix)
    if not store.objects.get(key):
        return
    flip(store, key, data)
    with pytest.raises(CorruptMessage):
        download(store, source.segment, source.filesystem.after_kill(), "/data/back")


def flip(store: MemoryStore, key: str, data: st.DataObject) -> int:
    """Turn one bit of an object; its position."""
    damaged = bytearray(store.objects[key])
    bit = data.draw(st.integers(0, 8 * len(damaged) - 1))
    damaged[bit // 8] ^= 1 << bit % 8
    store.objects[key] = bytes(damaged)
    return bit // 8
