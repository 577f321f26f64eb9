"""Tiered storage against a plain copy of the same bytes.

Upload is :func:`ottla.tiered.copier.upload` of one segment, against copying its files and syncing
them. A cold read is the whole segment through the reader in steps of 1 MiB, with nothing in memory
and no index on the disk, against reading the file in such steps. The S3 server is a process of its
own, in Python: its figures say that it works, not how fast S3 is.

``python -m benchmarks.tiered [--megabytes N]``. Run it alone.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measures import THROUGHPUT, Figures

from ottla.records.batch import set_base_offset_and_epoch
from ottla.records.builder import build_batch
from ottla.records.record import Record
from ottla.storage.files import OsFilesystem
from ottla.storage.offset_index import OffsetIndex
from ottla.storage.time_index import TimeIndex
from ottla.tiered.chunks import Windows
from ottla.tiered.copier import SegmentFiles, upload
from ottla.tiered.index_cache import NO_TTL, IndexCache
from ottla.tiered.manifests import Manifests
from ottla.tiered.reader import RemoteReader
from ottla.tiered.segments import EpochStart, RemoteLogSegment, TopicIdPartition
from ottla.tiered.store import RemoteStore

STEP: Final = 1 << 20
BATCH: Final = 64 << 10
RECORD: Final = 1_000
ROUNDS: Final = 5
FAR: Final = 1 << 62


class SystemClock:
    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()


def make_segment(directory: Path, megabytes: int) -> tuple[RemoteLogSegment, SegmentFiles]:
    """A closed segment of batches of 64 KiB, with its indexes."""
    files = OsFilesystem()
    count = BATCH // RECORD
    batch = bytearray(
        build_batch([Record(value=os.urandom(RECORD - 20), timestamp=1) for _ in range(count)])
    )
    log = directory / f"{0:020}.log"
    index = OffsetIndex(files, str(directory / f"{0:020}.index"), 0, 10 << 20)
    times = TimeIndex(files, str(directory / f"{0:020}.timeindex"), 0, 10 << 20)
    index.reset()
    times.reset()
    offset = position = 0
    with log.open("wb") as file:
        while position < megabytes * 1_000_000:
            set_base_offset_and_epoch(batch, 0, offset, 0)
            file.write(batch)
            if position:
                index.append(offset + count - 1, position)
            offset += count
            position += len(batch)
    times.maybe_append(1, offset - 1)
    index.save()
    times.save()
    segment = RemoteLogSegment(
        partition=TopicIdPartition(bytes(16), "bench", 0),
        segment_id=bytes(15) + b"\1",
        start_offset=0,
        end_offset=offset - 1,
        max_timestamp_ms=1,
        broker_id=1,
        event_timestamp_ms=1,
        size_in_bytes=position,
        leader_epochs=(EpochStart(0, 0),),
        transaction_index_empty=True,
    )
    paths = SegmentFiles(files, str(log), index.path, times.path, None, None, b"0\n1\n0 0\n")
    return segment, paths


def plain_copy(files: SegmentFiles, target: Path) -> None:
    for path in files.paths().values():
        copy = target / Path(path).name
        shutil.copyfile(path, copy)
        with copy.open("rb") as file:
            os.fsync(file.fileno())


def plain_read(files: SegmentFiles) -> int:
    size = 0
    with open(files.log, "rb", buffering=0) as file:  # noqa: PTH123
        while data := file.read(STEP):
            size += len(data)
    return size


def cold_read(store: RemoteStore, segment: RemoteLogSegment, directory: str) -> int:
    """Everything that a broker without any memory of the segment does."""
    manifests = Manifests(store)
    indexes = IndexCache(
        OsFilesystem(),
        directory,
        store,
        manifests,
        clock=SystemClock(),
        size_max=1 << 30,
        ttl_ms=NO_TTL,
    )
    indexes.start()
    reader = RemoteReader(manifests, indexes, Windows(store))
    offset = size = 0
    while offset <= segment.end_offset:
        found = reader.read(segment, offset, STEP, upper_bound_offset=FAR)
        offset, size = found.next_offset, size + len(found.records)
    return size


def rate(size: int, work: Callable[[], object]) -> float:
    """Megabytes a second, the middle one of several rounds."""
    seconds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - began)
    return size / 1e6 / statistics.median(seconds)


@contextlib.contextmanager
def stores(directory: Path) -> Iterator[dict[str, RemoteStore]]:
    from tests.tiered.s3_server import BUCKET, s3_server

    from ottla.tiered.driver.stores import open_store

    with s3_server() as server:
        yield {
            "directory": open_store(f"file://{directory}/store", {}),
            "S3 server": open_store(f"s3://{BUCKET}/bench", server.settings),
        }


def tiered(directory: Path, megabytes: int) -> dict[str, Figures]:
    """Rows of plain copies, and of each store."""
    segment, files = make_segment(directory, megabytes)
    size = segment.size_in_bytes
    target = directory / "copy"
    target.mkdir()
    rows: dict[str, Figures] = {
        "plain copy": {
            "upload": (rate(size, lambda: plain_copy(files, target)), THROUGHPUT),
            "cold read": (rate(size, lambda: plain_read(files)), THROUGHPUT),
        }
    }
    with stores(directory) as opened:
        for name, store in opened.items():
            put = partial(upload, store, segment, files)
            read = partial(_read, store, segment)
            rows[name] = {
                "upload": (rate(size, put), THROUGHPUT),
                "cold read": (rate(size, read), THROUGHPUT),
            }
    return rows


def _read(store: RemoteStore, segment: RemoteLogSegment) -> None:
    with tempfile.TemporaryDirectory() as directory:
        assert cold_read(store, segment, directory) == segment.size_in_bytes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=500)
    parser.add_argument("--directory", help="where it all lies (a temporary one)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.directory) as directory:
        rows = tiered(Path(directory), options.megabytes)
    plain = rows["plain copy"]
    for row, figures in rows.items():
        shown = ", ".join(
            f"{name} {value:,.0f} {measure.unit} ({value / plain[name][0]:.2f} of a plain copy)"
            for name, (value, measure) in figures.items()
        )
        print(f"{row}: {shown}")


if __name__ == "__main__":
    main()
