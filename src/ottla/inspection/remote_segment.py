"""A segment of the remote store, brought here and read from end to end."""

import tempfile

from ottla.inspection.producers import snapshot_problems
from ottla.inspection.read_only import FILES
from ottla.inspection.segment import Facts, Problem, SegmentFiles
from ottla.inspection.whole_segment import Progress, WholeSegment
from ottla.storage.checkpoints import LEADER_EPOCHS, read_epochs
from ottla.storage.files import OsFilesystem
from ottla.storage.leader_epochs import LeaderEpochs
from ottla.storage.segment import LOG_SUFFIX
from ottla.tiered.copier import download
from ottla.tiered.segments import RemoteLogSegment
from ottla.tiered.store import RemoteStore


def inspect_remote(
    store: RemoteStore,
    segment: RemoteLogSegment,
    name: str,
    *,
    deep: bool = True,
    progress: Progress = lambda _: None,
) -> Facts:
    """All that is wrong with it; ``name`` is what its objects are called, without suffix.

    It takes as much room in the directory for temporary files as the segment has.
    CorruptMessage or CorruptCheckpoint when it does not come as it was copied, RemoteStoreError
    when it cannot be had.
    """
    with tempfile.TemporaryDirectory(prefix="ottla-inspection-") as directory:
        download(store, segment, OsFilesystem(), directory, progress)
        files = SegmentFiles(directory, segment.start_offset, name)
        epochs = LeaderEpochs(read_epochs(FILES, f"{directory}/{LEADER_EPOCHS}"))
        facts = WholeSegment(files, epochs=epochs, deep=deep).read()
        facts.problems += snapshot_problems(directory, name)
    if facts.last_offset is not None and facts.last_offset > segment.end_offset:
        found = f"offset {facts.last_offset} in a segment up to {segment.end_offset}"
        facts.problems.append(Problem(name + LOG_SUFFIX, None, found))
    return facts
