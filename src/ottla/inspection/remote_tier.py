"""The remote segments of logs: as the store has them, and as ``__remote_log_metadata`` tells.

With both at hand both are seen: a segment that the topic calls finished must be in the store, and
what is only in the store is the rest of a copy that was broken off, or has just begun.
"""

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ottla.common.errors import CorruptMessage
from ottla.inspection.read_only import FILES
from ottla.inspection.remote_segment import inspect_remote
from ottla.inspection.segment import Facts, SegmentFiles
from ottla.inspection.whole_segment import Progress
from ottla.storage.files import OsFilesystem
from ottla.storage.segment import LOG_SUFFIX
from ottla.tiered.copier import StoredSegment, download, list_segments
from ottla.tiered.driver.stores import open_store
from ottla.tiered.layout import MANIFEST_SUFFIX, TOPIC_MAX, parse_key, segment_prefix
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import RemoteLogSegment, SegmentState, TopicIdPartition
from ottla.tiered.store import RemoteStore, RemoteStoreError

Known = Mapping[TopicIdPartition, list[RemoteLogSegment]]
"""What the metadata topic tells of each partition."""


class RemoteCopy(NamedTuple):
    """A remote segment. The end is -1 where nobody knows it: no manifest, and no record."""

    segment: RemoteLogSegment
    sizes: Mapping[str, int] | None
    """Of its objects, by suffix; None when nobody has looked into the store."""
    told: bool | None
    """Whether the metadata topic knows of it; None when nobody has asked."""
    problem: str | None = None

    @property
    def is_finished(self) -> bool:
        return self.segment.state is SegmentState.COPY_SEGMENT_FINISHED

    @property
    def size(self) -> int:
        return self.segment.size_in_bytes


class RemoteTier:
    """One of store and topic may be missing, then the other is believed."""

    def __init__(self, url: str | None, store: RemoteStore | None, known: Known | None) -> None:
        self.url = url
        self.store = store
        self._known = known

    @property
    def is_readable(self) -> bool:
        return self.store is not None

    def partitions(self, topic: str) -> list[TopicIdPartition]:
        """What there is of a topic, or of several that have had this name one after another."""
        found = {each for each in self._known or () if each.topic == topic}
        if self.store is not None:
            cut = topic[:TOPIC_MAX]
            keys = (parse_key(each.key) for each in self.store.list(f"{cut}-"))
            found |= {
                key.partition._replace(topic=topic)
                for key in keys
                if key is not None and key.partition.topic == cut
            }
        return sorted(found)

    def copies(self, partition: TopicIdPartition) -> list[RemoteCopy]:
        """By start offset. RemoteStoreError when the store does not answer."""
        copies: dict[bytes, RemoteCopy] = {}
        told = None if self._known is None else False
        if self.store is not None:
            for stored in list_segments(self.store, partition):
                copies[stored.segment_id] = self._stored(self.store, stored, told)
        for segment in () if self._known is None else self._known.get(partition, ()):
            copies[segment.segment_id] = self._told(segment, copies.get(segment.segment_id))
        order = sorted(copies.values(), key=lambda copy: copy.segment.event_timestamp_ms)
        return sorted(order, key=lambda copy: copy.segment.start_offset)

    def _stored(self, store: RemoteStore, stored: StoredSegment, told: bool | None) -> RemoteCopy:
        problem = None
        if stored.is_whole:
            try:
                manifest = read_manifest(store, stored)
            except (CorruptMessage, RemoteStoreError) as error:
                problem = str(error)
            else:
                missing = [
                    suffix
                    for suffix, each in manifest.objects.items()
                    if stored.sizes.get(suffix) != each.size
                ]
                if missing:
                    problem = f"not as the manifest has it: {', '.join(missing)}"
                return RemoteCopy(manifest.segment, stored.sizes, told, problem)
        return RemoteCopy(_unfinished(stored), stored.sizes, told, problem)

    def _told(self, segment: RemoteLogSegment, stored: RemoteCopy | None) -> RemoteCopy:
        """What the topic says counts; whether the store can keep it, is seen."""
        if stored is None:
            sizes = None if self.store is None else dict[str, int]()
            copy = RemoteCopy(segment, sizes, told=True)
        else:
            copy = stored._replace(segment=segment, told=True)
        if copy.is_finished and copy.sizes is not None and MANIFEST_SUFFIX not in copy.sizes:
            return copy._replace(problem="finished, but not whole in the store")
        return copy

    def name(self, copy: RemoteCopy) -> str:
        """What its objects are called, without suffix."""
        key = segment_prefix(copy.segment)
        return key if self.url is None else f"{self.url.rstrip('/')}/{key}"

    def bring(self, copy: RemoteCopy, directory: str, progress: Progress) -> SegmentFiles:
        """Copy a segment with all its files into ``directory``, and check it on the way.

        CorruptMessage when it is damaged, RemoteStoreError when it cannot be had.
        """
        assert self.store is not None
        download(self.store, copy.segment, OsFilesystem(), directory, progress)
        return SegmentFiles(directory, copy.segment.start_offset, self.name(copy))

    def inspect(
        self, copy: RemoteCopy, *, deep: bool = True, progress: Progress = lambda _: None
    ) -> Facts:
        """As :func:`inspect_remote`, of a copy that the store has."""
        assert self.store is not None
        name = self.name(copy)
        return inspect_remote(self.store, copy.segment, name, deep=deep, progress=progress)

    def close(self) -> None:
        if self.store is not None:
            self.store.close()


def _unfinished(stored: StoredSegment) -> RemoteLogSegment:
    """A segment without a manifest: its key tells where it begins, and that is all."""
    return RemoteLogSegment(
        partition=stored.partition,
        segment_id=stored.segment_id,
        start_offset=stored.start_offset,
        end_offset=-1,
        max_timestamp_ms=-1,
        broker_id=-1,
        event_timestamp_ms=-1,
        size_in_bytes=stored.sizes.get(LOG_SUFFIX, 0),
        leader_epochs=(),
        state=SegmentState.COPY_SEGMENT_STARTED,
    )


def trouble(error: RemoteStoreError) -> str:
    """What is wrong with the store, without what its library tells programmers."""
    return str(error).partition("\n")[0]


def open_tier(url: str, settings: Mapping[str, str], known: Known | None = None) -> RemoteTier:
    """``settings`` are those of a node. A directory that is not there yet is an empty store."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not FILES.is_directory(unquote(parts.path)):
        return RemoteTier(url, None, known)
    return RemoteTier(url, open_store(url, settings, writable=False), known)
