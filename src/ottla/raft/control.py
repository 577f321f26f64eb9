"""What the control records of log and snapshots say of the quorum itself.

The newest voter set counts, committed or not. As long as it stands only in the bootstrap snapshot,
the first leader has yet to write it to the log.
"""

from ottla.metadata.snapshot import SnapshotContent
from ottla.protocol.generated.k_raft_version_record import KRaftVersionRecord
from ottla.protocol.generated.voters_record import VotersRecord
from ottla.protocol.message import from_bytes, to_bytes
from ottla.raft.log import LogBatch
from ottla.raft.voters import VoterSet, voters_from_record
from ottla.records.control import ControlType, read_control_type


class QuorumUnknown(Exception):
    """Neither the configuration nor the log says who votes."""


def kraft_version_value(version: int) -> bytes:
    return to_bytes(KRaftVersionRecord(version=0, k_raft_version=version), 0)


class ControlState:
    """kraft.version and voters, as the log has them or else the configuration."""

    __slots__ = ("_static", "_voters", "kraft_version", "needs_writing", "voters_offset")

    def __init__(self, static: VoterSet | None) -> None:
        self._static = static
        self._voters: VoterSet | None = None
        self.kraft_version = 0
        self.voters_offset = -1
        self.needs_writing = False
        """Whether the voters are known only from the bootstrap snapshot."""

    @property
    def voters(self) -> VoterSet:
        voters = self._voters or self._static
        if voters is None:
            raise QuorumUnknown(
                "the metadata log has no voters and controller.quorum.voters is not set: "
                "format the directory with --standalone, or set it"
            )
        return voters

    def load(self, content: SnapshotContent, *, is_bootstrap: bool) -> None:
        self.kraft_version = content.kraft_version or 0
        if content.voters is not None:
            self._voters = voters_from_record(content.voters)
            self.needs_writing = is_bootstrap

    def replay(self, batch: LogBatch) -> None:
        """A control batch of the log."""
        for record in batch.records():
            control_type = read_control_type(record.key)
            if control_type is ControlType.KRAFT_VERSION:
                version = from_bytes(KRaftVersionRecord, record.value or b"", 0)
                self.kraft_version = version.k_raft_version
            elif control_type is ControlType.KRAFT_VOTERS:
                voters = from_bytes(VotersRecord, record.value or b"", 0)
                self._voters = voters_from_record(voters)
                self.written(record.offset)

    def written(self, offset: int) -> None:
        self.voters_offset = offset
        self.needs_writing = False
