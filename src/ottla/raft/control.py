"""What the control records of log and snapshots say of the quorum itself.

The newest voter set counts, committed or not; what is truncated counts no longer, so each is kept
with its offset. As long as the voters stand only in the bootstrap snapshot, the first leader has
yet to write them to the log.
"""

from typing import Final, NamedTuple

from ottla.metadata.snapshot import SnapshotContent
from ottla.protocol.generated.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.generated.voters_record import VotersRecord
from ottla.protocol.message import from_bytes, to_bytes
from ottla.raft.log import LogBatch
from ottla.raft.snapshots import BOOTSTRAP_SNAPSHOT, SnapshotId
from ottla.raft.voters import VoterSet, voters_from_record
from ottla.records.control import ControlType, read_control_type

NOBODY: Final = VoterSet(())


class QuorumUnknown(Exception):
    """Neither the configuration nor the log says who votes."""


def kraft_version_value(version: int) -> bytes:
    return to_bytes(KRaftVersionRecord(version=0, k_raft_version=version), 0)


class QuorumChange(NamedTuple):
    """Version and voters from ``offset`` on; -1 for what was there before the log."""

    offset: int
    kraft_version: int
    voters: VoterSet


class ControlState:
    """kraft.version and voters, as the log has them or else the configuration."""

    __slots__ = ("_changes",)

    def __init__(self, static: VoterSet | None) -> None:
        self._changes = [QuorumChange(-1, 0, static or NOBODY)]

    @property
    def voters(self) -> VoterSet:
        return self._changes[-1].voters

    @property
    def kraft_version(self) -> int:
        return self._changes[-1].kraft_version

    @property
    def voters_offset(self) -> int:
        """Where the newest voter set stands in the log; -1 when it does not."""
        return self._changes[-1].offset

    @property
    def needs_writing(self) -> bool:
        """Whether the voters are known only from the bootstrap snapshot."""
        return self.kraft_version > 0 and self.voters_offset == -1

    def at(self, end_offset: int) -> QuorumChange:
        """What counts for the log up to ``end_offset``."""
        return next(each for each in reversed(self._changes) if each.offset < end_offset)

    def load(self, content: SnapshotContent, snapshot_id: SnapshotId) -> None:
        """A snapshot takes the place of everything before."""
        voters = self._changes[0].voters
        if content.voters is not None:
            voters = voters_from_record(content.voters)
        is_bootstrap = snapshot_id == BOOTSTRAP_SNAPSHOT
        offset = -1 if is_bootstrap or content.voters is None else snapshot_id.end_offset - 1
        self._changes = [
            QuorumChange(-1, 0, self._changes[0].voters),
            QuorumChange(offset, content.kraft_version or 0, voters),
        ]

    def replay(self, batch: LogBatch) -> bool:
        """A control batch of the log; whether it changed anything."""
        before = self._changes[-1]
        for record in batch.records():
            control_type = read_control_type(record.key)
            last = self._changes[-1]
            if control_type is ControlType.KRAFT_VERSION:
                version = from_bytes(KRaftVersionRecord, record.value or b"", 0)
                change = QuorumChange(record.offset, version.k_raft_version, last.voters)
            elif control_type is ControlType.KRAFT_VOTERS:
                voters = from_bytes(VotersRecord, record.value or b"", 0)
                change = QuorumChange(record.offset, last.kraft_version, voters_from_record(voters))
            else:
                continue
            self._changes.append(change)
        return self._changes[-1] is not before

    def truncate_to(self, end_offset: int) -> bool:
        """Forget what stood at ``end_offset`` or behind; whether there was something."""
        kept = [each for each in self._changes if each.offset < end_offset]
        is_changed = len(kept) != len(self._changes)
        self._changes = kept
        return is_changed

    def forget_before(self, end_offset: int) -> None:
        """Of what stood before ``end_offset`` the newest is enough: no snapshot ends before it."""
        while len(self._changes) > 2 and self._changes[2].offset < end_offset:
            del self._changes[1]
