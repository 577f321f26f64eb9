"""Whether the files of a log are sound and agree with each other. Nothing is changed.

What is found is told file by file and goes on: a damaged batch ends the look at its segment only.
"""

import posixpath
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ottla.cli.log_files import METADATA_TOPIC, batches_of, records_of
from ottla.common.errors import ApiError, CorruptMessage
from ottla.records.batch import MAGIC, crc_is_valid, read_header
from ottla.storage.checkpoints import LEADER_EPOCHS, CorruptCheckpoint, read_epochs
from ottla.storage.file_records import BatchPlace
from ottla.storage.files import OsFilesystem
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.producer_snapshots import CorruptSnapshot, decode_snapshot
from ottla.storage.segment import offset_of_file
from ottla.storage.time_index import TimeIndex
from ottla.storage.transaction_index import TransactionIndex

_UNBOUNDED = (1 << 63) - 1
Progress = Callable[[int], None]


class Problem(NamedTuple):
    """Something that should not be so."""

    file: str
    position: int | None
    problem: str


class Summary(NamedTuple):
    """What was looked at."""

    segments: int
    batches: int
    records: int
    problems: list[Problem]


def verify_log(directory: str, *, deep: bool, progress: Progress) -> Summary:
    """Look at every file of one partition; ``progress`` hears how many bytes were read."""
    filesystem = OsFilesystem()
    names = filesystem.list_directory(directory)
    segments = [name for name in names if name.endswith(".log")]
    problems: list[Problem] = []
    batches = records = 0
    previous_end = -1
    for name in sorted(segments):
        places, count = _verify_segment(
            f"{directory}/{name}", previous_end, deep=deep, progress=progress, problems=problems
        )
        problems += _verify_indexes(directory, name, names, places)
        batches, records = batches + len(places), records + count
        previous_end = places[-1].last_offset if places else previous_end
    problems += _verify_small_files(directory, names)
    return Summary(len(segments), batches, records, problems)


def _verify_segment(
    path: str, previous_end: int, *, deep: bool, progress: Progress, problems: list[Problem]
) -> tuple[list[BatchPlace], int]:
    """The batches of a segment and the number of their records, as far as it is sound."""
    places: list[BatchPlace] = []
    count, end = 0, 0
    size = OsFilesystem().size(path)
    base_offset = offset_of_file(posixpath.basename(path)) or 0
    last = max(previous_end, base_offset - 1)
    try:
        for place, data in batches_of(path):
            found = _batch_problems(place, data, last, deep=deep)
            problems.extend(Problem(path, place.position, text) for text in found)
            count += max(read_header(data.ljust(61, b"\0")).record_count, 0)
            places.append(place)
            last, end = place.last_offset, place.end
            progress(place.size)
    except CorruptMessage as error:
        problems.append(Problem(path, end, str(error)))
    else:
        if end < size:
            problems.append(Problem(path, end, f"{size - end} bytes that are no whole batch"))
    return places, count


def _batch_problems(place: BatchPlace, data: bytes, last: int, *, deep: bool) -> Iterator[str]:
    if place.base_offset <= last:
        yield f"offset {place.base_offset} after {last}"
    if place.last_offset < place.base_offset:
        yield f"last offset {place.last_offset} before base offset {place.base_offset}"
    if read_header(data.ljust(61, b"\0")).magic == MAGIC and not crc_is_valid(data, 0, len(data)):
        yield "the checksum does not match"
        return
    if deep:
        yield from _record_problems(place, data)


def _record_problems(place: BatchPlace, data: bytes) -> Iterator[str]:
    try:
        records = records_of(data)
    except ApiError as error:
        yield str(error)
        return
    last = place.base_offset - 1
    for record in records:
        if not last < record.offset <= place.last_offset:
            yield f"record with offset {record.offset} in a batch up to {place.last_offset}"
        last = record.offset


def _verify_indexes(
    directory: str, name: str, names: list[str], places: list[BatchPlace]
) -> Iterator[Problem]:
    filesystem, stem = OsFilesystem(), name.removesuffix(".log")
    base_offset = offset_of_file(name) or 0
    by_position = {place.position: place for place in places}
    path = f"{directory}/{stem}.index"
    # The index of the metadata log and of a segment that is being written may lack entries.
    if f"{stem}.index" in names:
        index = OffsetIndex(filesystem, path, base_offset, _UNBOUNDED)
        yield from _verify_offset_index(path, index, by_position)
    path = f"{directory}/{stem}.timeindex"
    if f"{stem}.timeindex" in names:
        last = places[-1].last_offset if places else base_offset - 1
        yield from _verify_time_index(
            path, TimeIndex(filesystem, path, base_offset, _UNBOUNDED), last
        )
    path = f"{directory}/{stem}.txnindex"
    if not TransactionIndex(filesystem, path, base_offset).is_sound():
        yield Problem(path, None, "not the aborted transactions of this segment")


def _verify_offset_index(
    path: str, index: OffsetIndex, by_position: dict[int, BatchPlace]
) -> Iterator[Problem]:
    if not index.has_whole_entries():
        yield Problem(path, None, "the size is no multiple of 8")
    before = -1
    for number, (relative, position) in enumerate(index.all()):
        if relative == position == 0:
            continue  # room that a running broker has set aside
        place = by_position.get(position)
        offset = index.base_offset + relative
        if place is None:
            yield Problem(path, number * 8, f"no batch begins at position {position}")
        elif place.last_offset != offset:
            yield Problem(path, number * 8, f"offset {offset} where {place.last_offset} stands")
        if relative <= before:
            yield Problem(path, number * 8, "the entries do not grow")
        before = relative


def _verify_time_index(path: str, index: TimeIndex, last_offset: int) -> Iterator[Problem]:
    if not index.has_whole_entries():
        yield Problem(path, None, "the size is no multiple of 12")
    before = -1
    for number, (timestamp, relative) in enumerate(index.all()):
        if timestamp == relative == 0:
            continue  # room that a running broker has set aside
        if timestamp < before:
            yield Problem(path, number * 12, "the timestamps do not grow")
        if index.base_offset + relative > max(last_offset, index.base_offset):
            yield Problem(path, number * 12, f"offset {index.base_offset + relative} is not there")
        before = timestamp


def _verify_small_files(directory: str, names: list[str]) -> Iterator[Problem]:
    filesystem = OsFilesystem()
    metadata = posixpath.basename(posixpath.abspath(directory)).startswith(METADATA_TOPIC)
    for name in names:
        path = f"{directory}/{name}"
        try:
            if name == LEADER_EPOCHS:
                read_epochs(filesystem, path)
            elif name.endswith(".snapshot") and not metadata:
                decode_snapshot(filesystem.read(path))
        except (CorruptCheckpoint, CorruptSnapshot) as error:
            yield Problem(path, None, str(error))
