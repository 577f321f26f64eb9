"""The manifests that were read lately."""

from typing import Final

from ottla.common.errors import CorruptMessage
from ottla.storage.files import Mutex
from ottla.tiered.layout import MANIFEST_SUFFIX, SegmentName, object_key, segment_prefix
from ottla.tiered.manifest import SIZE_MAX, Manifest, decode_manifest
from ottla.tiered.store import RemoteStore

COUNT_MAX: Final = 256


class Manifests:
    """Several threads may use it; two that miss the same manifest both fetch it."""

    __slots__ = ("_count_max", "_known", "_mutex", "_store")

    def __init__(self, store: RemoteStore, *, count_max: int = COUNT_MAX) -> None:
        self._store = store
        self._count_max = count_max
        self._known: dict[bytes, Manifest] = {}
        """By segment id, what was used last at the end."""
        self._mutex = Mutex()

    def get(self, segment: SegmentName) -> Manifest:
        """CorruptMessage when it is damaged, or another segment's."""
        with self._mutex:
            found = self._known.pop(segment.segment_id, None)
            if found is not None:
                self._known[segment.segment_id] = found
                return found
        found = read_manifest(self._store, segment)
        with self._mutex:
            self._known[segment.segment_id] = found
            if len(self._known) > self._count_max:
                del self._known[next(iter(self._known))]
        return found

    def forget(self, segment: SegmentName) -> None:
        with self._mutex:
            self._known.pop(segment.segment_id, None)


def read_manifest(store: RemoteStore, segment: SegmentName) -> Manifest:
    """CorruptMessage when it is damaged, or another segment's."""
    data = store.get_range(object_key(segment, MANIFEST_SUFFIX), 0, SIZE_MAX + 1)
    if len(data) > SIZE_MAX:
        raise CorruptMessage(f"the manifest of {segment_prefix(segment)} is over {SIZE_MAX} bytes")
    manifest = decode_manifest(data)
    found = manifest.segment
    if (found.partition, found.start_offset, found.segment_id) != (
        segment.partition,
        segment.start_offset,
        segment.segment_id,
    ):
        raise CorruptMessage(f"the manifest of {segment_prefix(segment)} is another segment's")
    return manifest
