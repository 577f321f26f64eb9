"""A disk in memory that forgets what was not synced.

Bytes count as durable after ``sync`` of their file, names after ``sync_directory`` of their
directory. :meth:`MemoryFilesystem.crash` loses the rest, or keeps an arbitrary part of it: some of
the writes, torn at sectors, and the changes of each directory up to some moment. That is less than
what a real file system promises, so code that survives here survives there.

Faults: :meth:`~MemoryFilesystem.stop_after` ends the process after so many changes (by a
:class:`PowerLost`, which is no ``Exception``, so that nobody handles it), ``fail`` makes chosen
operations raise an ``OSError``, ``capacity`` makes the disk full.
"""

import errno
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from typing import TypeAlias

from ottla.common.chance import Chance
from ottla.storage.files import Data, DirectoryInUse

SECTOR = 512
UNLIMITED = 1 << 60


class PowerLost(BaseException):
    """The process ends here; what it was doing is not finished."""

    def __init__(self, filesystem: "MemoryFilesystem | None" = None) -> None:
        super().__init__("the power is lost")
        self.filesystem = filesystem


_Write: TypeAlias = tuple[int, bytes | None]
"""Bytes at a position, or with None a truncation to that size."""


class _Inode:
    """The content of a file: as processes see it, and as the disk has it."""

    __slots__ = ("data", "durable", "mode", "modified_ms", "writes")

    def __init__(self, durable: bytes = b"") -> None:
        self.data = bytearray(durable)
        self.durable = durable
        self.writes: list[_Write] = []
        self.mode = 0o644
        self.modified_ms = 0

    def write(self, write: _Write) -> None:
        _apply(self.data, write)
        self.writes.append(write)

    def sync(self) -> None:
        if self.writes:
            self.durable = bytes(self.data)
            self.writes.clear()

    def after_crash(self, chance: Chance | None) -> "_Inode":
        data = bytearray(self.durable)
        if chance is not None:
            for write in self.writes:
                for part in _torn(write, chance):
                    _apply(data, part)
        survivor = _Inode(bytes(data))
        survivor.mode, survivor.modified_ms = self.mode, self.modified_ms
        return survivor


class _Directory:
    """Names, as processes see them, and as the disk has them."""

    __slots__ = ("changes", "durable", "entries")

    def __init__(self) -> None:
        self.entries: dict[str, _Node] = {}
        self.durable: dict[str, _Node] = {}
        self.changes: list[dict[str, _Node | None]] = []
        """Oldest first; each names what comes, or with None what goes, at one stroke."""

    def change(self, change: "dict[str, _Node | None]") -> None:
        _rename(self.entries, change)
        self.changes.append(change)

    def sync(self) -> None:
        self.durable = dict(self.entries)
        self.changes.clear()

    def after_crash(self, chance: Chance | None) -> "_Directory":
        entries = dict(self.durable)
        kept = 0 if chance is None else chance.below(len(self.changes) + 1)
        for change in self.changes[:kept]:
            _rename(entries, change)
        survivor = _Directory()
        survivor.entries = {name: node.after_crash(chance) for name, node in entries.items()}
        survivor.sync()
        return survivor


_Node: TypeAlias = _Inode | _Directory


def _apply(data: bytearray, write: _Write) -> None:
    position, written = write
    if len(data) < position:
        data.extend(bytes(position - len(data)))
    if written is None:
        del data[position:]
    else:
        data[position : position + len(written)] = written


def _rename(entries: dict[str, _Node], change: dict[str, _Node | None]) -> None:
    for name, node in change.items():
        if node is None:
            entries.pop(name, None)
        else:
            entries[name] = node


def _torn(write: _Write, chance: Chance) -> list[_Write]:
    """What a crash leaves of a write: nothing, all of it, or some sectors."""
    position, data = write
    fate = chance.below(3)
    if fate == 0:
        return []
    if fate == 1 or data is None:
        return [write]
    parts: list[_Write] = []
    start = 0
    while start < len(data):
        end = min(len(data), start + SECTOR - (position + start) % SECTOR)
        if chance.below(2):
            parts.append((position + start, data[start:end]))
        start = end
    return parts


class MemoryFile:
    """An open file; it goes on after its name is gone, and ends with a crash."""

    __slots__ = ("_filesystem", "_incarnation", "_inode", "_open", "path")

    def __init__(self, filesystem: "MemoryFilesystem", path: str, inode: _Inode) -> None:
        self._filesystem = filesystem
        self._inode = inode
        self._incarnation = filesystem.incarnations
        self._open = True
        self.path = path

    def _check(self) -> None:
        if not self._open or self._incarnation != self._filesystem.incarnations:
            raise OSError(errno.EBADF, "the file is closed", self.path)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file in memory has no descriptor")

    def write_at(self, position: int, data: Data) -> None:
        self._check()
        self._filesystem.before("write", self.path, len(data))
        self._inode.write((position, bytes(data)))
        self._inode.modified_ms = self._filesystem.now_ms
        self._filesystem.changed("write", self.path)

    def read_at(self, position: int, size: int) -> bytes:
        self._check()
        self._filesystem.before("read", self.path)
        return bytes(self._inode.data[position : position + size])

    def size(self) -> int:
        self._check()
        return len(self._inode.data)

    def truncate(self, size: int) -> None:
        self._check()
        self._filesystem.before("truncate", self.path)
        self._inode.write((size, None))
        self._inode.modified_ms = self._filesystem.now_ms
        self._filesystem.changed("truncate", self.path)

    def sync(self) -> None:
        self._check()
        self._filesystem.before("sync", self.path)
        self._inode.sync()
        self._filesystem.changed("sync", self.path)

    def close(self) -> None:
        self._open = False


class MemoryLock:
    __slots__ = ("_filesystem", "_incarnation", "_path")

    def __init__(self, filesystem: "MemoryFilesystem", path: str) -> None:
        self._filesystem = filesystem
        self._path = path
        self._incarnation = filesystem.incarnations

    def release(self) -> None:
        if self._incarnation == self._filesystem.incarnations:
            self._filesystem.locks.discard(self._path)


class MemoryFilesystem:
    """See the module. ``now_ms`` dates changes and is set by the test."""

    def __init__(self, *, capacity: int = UNLIMITED) -> None:
        self.capacity = capacity
        self.now_ms = 0
        self.incarnations = 0
        self.operations = 0
        """Changes so far: writes, truncations, syncs, renames, removals, new names."""
        self.locks: set[str] = set()
        self.fail: Callable[[str, str], OSError | None] = lambda _operation, _path: None
        """Asked before each operation, by its kind and path; what it answers is raised."""
        self.after: Callable[[str, str], None] = lambda _operation, _path: None
        """Called after each change."""
        self._stop_at: int | None = None
        self._looks = 0
        self._root = _Directory()

    # Faults

    def stop_after(self, changes: int) -> None:
        """Raise PowerLost at everything that comes after so many more changes."""
        self._stop_at = self.operations + changes

    def go_on(self) -> None:
        """Take :meth:`stop_after` back."""
        self._stop_at = None

    def before(self, operation: str, path: str, size: int = 0) -> None:
        if self._looks:
            return
        if self._stop_at is not None and self.operations >= self._stop_at:
            raise PowerLost(self)
        error = self.fail(operation, path)
        if error is not None:
            raise error
        if self.capacity < UNLIMITED and _used(self._root) + size > self.capacity:
            raise OSError(errno.ENOSPC, "no space left on device", path)

    @contextmanager
    def untroubled(self) -> Iterator[None]:
        """Within it nothing fails: for a look at the disk from outside of the machine."""
        self._looks += 1
        try:
            yield
        finally:
            self._looks -= 1

    def used(self) -> int:
        """Bytes of all files."""
        return _used(self._root)

    def changed(self, operation: str, path: str) -> None:
        self.operations += 1
        self.after(operation, path)

    def crash(self, chance: Chance | None = None) -> None:
        """Lose what was not synced; with ``chance`` an arbitrary part of it survives."""
        self._root = self._root.after_crash(chance)
        self.kill()

    def kill(self) -> None:
        """End the process only: the kernel keeps all that was written."""
        self.incarnations += 1
        self.locks.clear()
        self._stop_at = None

    def after_crash(self, chance: Chance | None = None) -> "MemoryFilesystem":
        """The disk as it would be found after a crash at this moment."""
        survivor = MemoryFilesystem(capacity=self.capacity)
        survivor.now_ms = self.now_ms
        survivor._root = self._root.after_crash(chance)
        return survivor

    def after_kill(self) -> "MemoryFilesystem":
        """A copy of the disk as another process would find it now."""
        copy = MemoryFilesystem(capacity=self.capacity)
        copy.now_ms = self.now_ms
        copy._root = deepcopy(self._root)
        return copy

    # Names

    def _find(self, path: str) -> _Node | None:
        node: _Node = self._root
        for name in path.split("/"):
            if not name:
                continue
            if not isinstance(node, _Directory) or name not in node.entries:
                return None
            node = node.entries[name]
        return node

    def _parent(self, path: str) -> tuple[_Directory, str]:
        parent, _, name = path.rpartition("/")
        node = self._find(parent)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", parent)
        return node, name

    def _inode(self, path: str) -> _Inode:
        node = self._find(path)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        if isinstance(node, _Directory):
            raise IsADirectoryError(errno.EISDIR, "is a directory", path)
        return node

    def open(self, path: str, *, create: bool = False, stays: bool = False) -> MemoryFile:
        self.before("open", path)
        if stays:
            self.before("keep open", path)
        if create and self._find(path) is None:
            directory, name = self._parent(path)
            directory.change({name: _Inode()})
            self._inode(path).modified_ms = self.now_ms
            self.changed("create", path)
        return MemoryFile(self, path, self._inode(path))

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def is_directory(self, path: str) -> bool:
        return isinstance(self._find(path), _Directory)

    def list_directory(self, path: str) -> list[str]:
        self.before("list", path)
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        return sorted(node.entries)

    def make_directory(self, path: str) -> None:
        self.before("make_directory", path)
        if self.is_directory(path):
            return
        parent = path.rpartition("/")[0]
        if parent:
            self.make_directory(parent)
        directory, name = self._parent(path)
        directory.change({name: _Directory()})
        self.changed("make_directory", path)

    def rename(self, source: str, target: str) -> None:
        self.before("rename", source)
        directory, old = self._parent(source)
        target_directory, new = self._parent(target)
        if directory is not target_directory:
            raise OSError(errno.EXDEV, "only within a directory", source)
        if old not in directory.entries:
            raise FileNotFoundError(errno.ENOENT, "no such file", source)
        directory.change({old: None, new: directory.entries[old]})
        self.changed("rename", target)

    def remove(self, path: str) -> None:
        self.before("remove", path)
        self._inode(path)
        directory, name = self._parent(path)
        directory.change({name: None})
        self.changed("remove", path)

    def remove_directory(self, path: str) -> None:
        self.before("remove_directory", path)
        if self._find(path) is not None:
            directory, name = self._parent(path)
            directory.change({name: None})
            self.changed("remove_directory", path)

    def sync_directory(self, path: str) -> None:
        self.before("sync_directory", path)
        node = self._find(path)
        if not isinstance(node, _Directory):
            raise FileNotFoundError(errno.ENOENT, "no such directory", path)
        node.sync()
        self.changed("sync_directory", path)

    def sync_all(self, path: str) -> None:
        self.before("sync_all", path)
        _sync_all(self._root)
        self.changed("sync_all", path)

    # Whole files

    def read(self, path: str) -> bytes:
        self.before("read", path)
        return bytes(self._inode(path).data)

    def write(self, path: str, data: bytes) -> None:
        file = self.open(path, create=True)
        if file.size():
            file.truncate(0)
        file.write_at(0, data)

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        self.write(temporary, data)
        self.open(temporary).sync()
        self.rename(temporary, path)
        self.sync_directory(path.rpartition("/")[0])

    def size(self, path: str) -> int:
        return len(self._inode(path).data)

    def modified_ms(self, path: str) -> int:
        return self._inode(path).modified_ms

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        self._inode(path).modified_ms = modified_ms

    def lock(self, path: str) -> MemoryLock:
        self.open(path, create=True)
        if path in self.locks:
            raise DirectoryInUse(path)
        self.locks.add(path)
        return MemoryLock(self, path)

    def space(self, path: str) -> tuple[int, int]:
        self.before("space", path)
        return self.capacity, self.capacity - _used(self._root)

    def set_mode(self, path: str, mode: int) -> None:
        self._inode(path).mode = mode


def _sync_all(node: _Node) -> None:
    node.sync()
    if isinstance(node, _Directory):
        for entry in node.entries.values():
            _sync_all(entry)


def _used(node: _Node) -> int:
    if isinstance(node, _Inode):
        return len(node.data)
    return sum(_used(entry) for entry in node.entries.values())
