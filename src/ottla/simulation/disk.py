"""What a disk may do to its node: be full, fail, be slow, hang. Each is taken back by :func:`mend`.

A node that loses its only log directory, or that of the metadata log, ends; once the disk is mended
it may start again on what the disk has. Where there are two directories, each is a disk that may
fail by itself, and the node goes on with the other. Losing power, and torn writes with it, is the
node's business (:meth:`~ottla.simulation.node.SimulatedNode.lose_power`).
"""

import errno
from typing import Final

from ottla.common.chance import Chance
from ottla.raft.lanes import LANE, SNAPSHOT_LANE
from ottla.simulation.node import SimulatedNode
from ottla.simulation.scheduler import BACKGROUND_SECONDS
from ottla.storage.offset_index import ENTRY
from ottla.testing.files import UNLIMITED

SLOW_SECONDS: Final = ((0.2, 3.0), (2.0, 15.0))
"""How slow: within the timeouts of others, or beyond them."""
OPERATIONS: Final = ("write", "sync", "read", "open", "rename", "sync_directory", "truncate")
ROOM_BYTES_MAX: Final = 20_000
METADATA_LOG: Final = "/__cluster_metadata"


def fill(node: SimulatedNode, chance: Chance) -> None:
    """Leave room for a little more, and then for nothing."""
    node.files.capacity = node.files.used() + chance.below(ROOM_BYTES_MAX)
    node.cluster.note(f"{node}: its disk is full soon")


def fail(node: SimulatedNode, chance: Chance) -> None:
    """Let one kind of operation fail, on all files or on those of the metadata log or the others.

    It may be fine a few times more: disks fail in the midst of things. Where there is a directory
    that the node can do without, mostly all of that one fails.
    """
    operations: tuple[str, ...] = (chance.choose(OPERATIONS),)
    part = chance.choose(("", METADATA_LOG, ".log", ".checkpoint", "/quorum-state"))
    left = chance.below(20)
    if node.other_directories and chance.below(4):
        operations, part = OPERATIONS, f"{chance.choose(node.other_directories)}/"

    def failing(asked: str, path: str) -> OSError | None:
        nonlocal left
        if asked not in operations or part not in path:
            return None
        left -= 1
        return OSError(errno.EIO, "Input/output error", path) if left < 0 else None

    node.files.fail = failing
    node.cluster.note(f"{node}: {', '.join(operations)} of {part or 'everything'} fails soon")


def slow(node: SimulatedNode, chance: Chance) -> None:
    """Let each sync, and all other work in the background, take seconds."""
    node.scheduler.background_seconds = chance.choose(SLOW_SECONDS)
    node.cluster.note(f"{node}: its disk is slow")


def lose_indexes(node: SimulatedNode, chance: Chance) -> None:
    """Leave some indexes of a node that does not run without entries, or the first of them only."""
    files = node.files
    with files.untroubled():
        for directory in node.config.log_dirs:
            for partition in files.list_directory(directory):
                path = f"{directory}/{partition}"
                names = files.list_directory(path) if files.is_directory(path) else []
                for name in names:
                    if name.endswith((".index", ".timeindex")) and chance.below(4) == 0:
                        kept = b""
                        if name.endswith(".index"):
                            entries = files.size(f"{path}/{name}") // ENTRY.size
                            kept = files.read(f"{path}/{name}")[: entries // 2 * ENTRY.size]
                        files.write(f"{path}/{name}", kept)


def hang(node: SimulatedNode, chance: Chance) -> None:
    """Let no sync and no other work in the background of one directory end.

    What a process only writes goes to the memory of the machine, and goes on.
    """
    others = node.other_directories
    if others and chance.below(4):
        directory = chance.choose(others)
    else:
        directory = node.config.metadata_log_dir
        node.scheduler.hang((LANE, SNAPSHOT_LANE))
    node.scheduler.hang((directory,))
    node.cluster.note(f"{node}: its disk at {directory} hangs")


def take_descriptors(node: SimulatedNode, chance: Chance) -> None:
    """Let most files not be kept open, as if connections had taken all descriptors.

    There is a reserve for those that are open for a moment, and for the metadata log. Memory is
    short as well: some appends to other logs fail, and leave nothing behind.
    """

    def failing(asked: str, path: str) -> OSError | None:
        if asked == "write" and path.endswith(".log") and METADATA_LOG not in path:
            short = chance.below(8) == 0
            return OSError(errno.ENOMEM, "Cannot allocate memory", path) if short else None
        if asked != "keep open" or chance.below(4) == 0:
            return None
        return OSError(errno.EMFILE, "Too many open files", path)

    node.files.fail = failing
    node.cluster.note(f"{node}: has no descriptors left")


def mend(node: SimulatedNode) -> None:
    node.scheduler.release()
    node.files.capacity = UNLIMITED
    node.files.fail = lambda _operation, _path: None
    node.scheduler.background_seconds = BACKGROUND_SECONDS
    node.cluster.note(f"{node}: its disk is well")
