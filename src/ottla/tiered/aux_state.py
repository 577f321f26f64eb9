"""What a follower must know of a log whose beginning is in the remote store only.

It copies nothing of that from its leader. But it may lead one day, and then it is asked for those
offsets and must know under which leader epochs they were written, and which producers wrote last.
Both lie beside each segment, as they were at its end.
"""

from typing import NamedTuple

from ottla.common.errors import CorruptMessage
from ottla.storage.checkpoints import CorruptCheckpoint, decode_epochs
from ottla.storage.leader_epochs import EpochEntry
from ottla.storage.segment import SNAPSHOT_SUFFIX
from ottla.tiered.layout import LEADER_EPOCHS_SUFFIX, object_key
from ottla.tiered.manifest import Manifest
from ottla.tiered.manifests import read_manifest
from ottla.tiered.segments import RemoteLogSegment
from ottla.tiered.store import RemoteStore


class RemoteLogAuxState(NamedTuple):
    """What is known at the end of a remote segment."""

    next_offset: int
    """The offset behind the segment."""
    epochs: list[EpochEntry]
    producers: bytes | None
    """A snapshot; None when there was none."""


def read_aux_state(store: RemoteStore, segment: RemoteLogSegment) -> RemoteLogAuxState:
    """Blocks. CorruptMessage when what the store has is damaged."""
    manifest = read_manifest(store, segment)
    producers = None
    if SNAPSHOT_SUFFIX in manifest.objects:
        producers = _object(store, manifest, SNAPSHOT_SUFFIX)
    try:
        epochs = decode_epochs(_object(store, manifest, LEADER_EPOCHS_SUFFIX))
    except CorruptCheckpoint as error:
        raise CorruptMessage(str(error)) from error
    return RemoteLogAuxState(segment.end_offset + 1, epochs, producers)


def _object(store: RemoteStore, manifest: Manifest, suffix: str) -> bytes:
    key = object_key(manifest.segment, suffix)
    data = store.get(key)
    if not manifest.verify(suffix, data):
        raise CorruptMessage(f"{key} is damaged")
    return data
