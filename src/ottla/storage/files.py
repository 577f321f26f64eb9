"""Files and directories: the only module of the package that calls the operating system.

Everything above takes a :class:`Filesystem`, so that the same code runs on a real disk, on a disk
in memory that loses what was not synced, and in a simulation.

Rules:

1. Every failure is an ``OSError``; callers turn it into ``LogDirFailed``. Nothing is retried: after
   a failed ``sync`` nobody knows what is on the disk. Only what :func:`is_disks` denies is no
   failure of the disk: nothing was done then, and it may be tried again.
2. A name is durable only after ``sync_directory`` of the directory that holds it, and bytes only
   after ``sync`` of the file.
3. A file whose regions may still be on their way to a socket is not closed but let go: it closes
   itself when the last :class:`FileRegion` is gone, so a descriptor is never reused under a reader.
"""

# Paths are strings: making objects of them costs more than the calls themselves.
# ruff: noqa: PTH101, PTH102, PTH103, PTH104, PTH108, PTH110, PTH112, PTH116, PTH120, PTH208

import contextlib
import ctypes
import errno
import fcntl
import os
import shutil
import threading
from typing import Final, Protocol

REMOVALS_MAX: Final = 5
"""How often a directory is tried that somebody else is still at."""

NOT_THE_DISKS: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Errors of a process or machine that has too little of something, on a disk that is well."""
_NO_DESCRIPTOR: Final = frozenset({errno.EMFILE, errno.ENFILE})

Data = bytes | bytearray | memoryview

Mutex = threading.Lock

_sync_data = getattr(os, "fdatasync", os.fsync)
_syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)


def is_disks(error: OSError) -> bool:
    """Whether an error says something of the disk; if not, the same may be tried again later."""
    return error.errno not in NOT_THE_DISKS


def _not_synced(error: OSError) -> OSError:
    """Whatever a sync fails with: what was written is perhaps lost, and the next sync succeeds.

    The kernel tells, once, what has become of writing back; that may be want of memory too.
    """
    return error if is_disks(error) else OSError(errno.EIO, f"not synced: {error}")


class DirectoryInUse(Exception):
    """Another process, or another broker of this one, has locked the directory."""

    def __init__(self, lock: str) -> None:
        """``lock`` is the path of the file that stands for the lock."""
        self.directory = os.path.dirname(lock)
        super().__init__(f"{self.directory} is in use by another process: is a broker running?")


class Readable(Protocol):
    """Something that is read at given positions."""

    def read_at(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes; fewer only at the end."""
        ...


class File(Protocol):
    """An open file that is read and written at given positions."""

    def fileno(self) -> int: ...

    def write_at(self, position: int, data: Data) -> None:
        """Write all of ``data``."""
        ...

    def read_at(self, position: int, size: int) -> bytes:
        """At most ``size`` bytes; fewer only at the end of the file."""
        ...

    def size(self) -> int: ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None: ...

    def close(self) -> None: ...


class Lock(Protocol):
    def release(self) -> None: ...


class Filesystem(Protocol):
    """What storage needs of a file system; paths are strings with slashes."""

    def open(self, path: str, *, create: bool = False, stays: bool = False) -> File:
        """A file that ``stays`` open gets no descriptor from the reserve, if there is one."""
        ...

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[str]:
        """The names in it, sorted."""
        ...

    def make_directory(self, path: str) -> None:
        """With its parents; it may be there already."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomically; a file that is there is replaced."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_directory(self, path: str) -> None:
        """With everything in it; it need not be there."""
        ...

    def sync_directory(self, path: str) -> None: ...

    def sync_all(self, path: str) -> None:
        """Sync everything on the disk that holds ``path``: one wait for many files."""
        ...

    def read(self, path: str) -> bytes: ...

    def write(self, path: str, data: bytes) -> None:
        """Make or replace the whole file, without waiting for the disk."""
        ...

    def write_atomically(self, path: str, data: bytes) -> None:
        """After this the file has ``data``, come what may; before, what it had."""
        ...

    def size(self, path: str) -> int: ...

    def modified_ms(self, path: str) -> int: ...

    def set_modified_ms(self, path: str, modified_ms: int) -> None: ...

    def lock(self, path: str) -> Lock:
        """Take the lock that ``path`` stands for; DirectoryInUse when it is taken."""
        ...

    def space(self, path: str) -> tuple[int, int]:
        """All bytes and usable bytes of the disk that holds ``path``."""
        ...

    def set_mode(self, path: str, mode: int) -> None: ...


class FileRegion:
    """``size`` bytes of ``file`` from ``position`` on: what ``sendfile`` takes."""

    __slots__ = ("file", "position", "size")

    def __init__(self, file: File, position: int, size: int) -> None:
        self.file = file
        self.position = position
        self.size = size

    def read(self) -> bytes:
        return self.file.read_at(self.position, self.size)


class OsFile:
    """A descriptor of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor

    def write_at(self, position: int, data: Data) -> None:
        written = os.pwrite(self._descriptor, data, position)
        if written != len(data):
            self._write_rest(position, memoryview(data), written)

    def _write_rest(self, position: int, data: memoryview, written: int) -> None:
        try:
            while written < len(data):
                written += os.pwrite(self._descriptor, data[written:], position + written)
        except OSError:
            # A part of what was to be appended is nothing; it must not look like something later.
            with contextlib.suppress(OSError):
                if self.size() == position + written:
                    self.truncate(position)
            raise

    def read_at(self, position: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, position)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def truncate(self, size: int) -> None:
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        try:
            _sync_data(self._descriptor)
        except OSError as error:
            raise _not_synced(error) from error

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        # The last reader of a segment that was let go is done with it.
        if self._descriptor >= 0:
            os.close(self._descriptor)


class OsLock:
    """A POSIX record lock, as Java takes it: a Kafka broker and ours exclude each other.

    Such a lock does not hold within one process, so the paths that are locked here are kept too.
    """

    __slots__ = ("_descriptor", "_path")

    _held: set[str] = set()  # noqa: RUF012 - of the process, like the locks themselves

    def __init__(self, path: str) -> None:
        self._path = os.path.realpath(path)
        if self._path in self._held:
            raise DirectoryInUse(path)
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._descriptor)
            raise DirectoryInUse(path) from error
        self._held.add(self._path)

    def release(self) -> None:
        if self._path in self._held:
            self._held.discard(self._path)
            os.close(self._descriptor)


class OsFilesystem:
    """The file system of the machine.

    ``reserve`` descriptors are kept back for it: when connections have taken all others, what is
    open for a moment only can still be opened. Several threads may do so at once.
    """

    def __init__(self, reserve: int = 0) -> None:
        self._reserve_max = reserve
        self._reserve: list[int] = []
        self._refill()

    def __del__(self) -> None:
        for descriptor in self._reserve:
            os.close(descriptor)

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags | os.O_CLOEXEC, 0o644)
        except OSError as error:
            if error.errno not in _NO_DESCRIPTOR or not self._reserve:
                raise
        with contextlib.suppress(IndexError):  # another thread has taken the last one
            os.close(self._reserve.pop())
        return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def _refill(self) -> None:
        """Give back what was taken from the reserve, after a file was closed."""
        with contextlib.suppress(OSError):
            while len(self._reserve) < self._reserve_max:
                self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))

    def open(self, path: str, *, create: bool = False, stays: bool = False) -> OsFile:
        flags = os.O_RDWR | (os.O_CREAT if create else 0)
        if stays:
            return OsFile(os.open(path, flags | os.O_CLOEXEC, 0o644))
        return OsFile(self._open(path, flags))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def is_directory(self, path: str) -> bool:
        return os.path.isdir(path)

    def list_directory(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def make_directory(self, path: str) -> None:
        try:
            os.mkdir(path)
        except OSError:
            os.makedirs(path, exist_ok=True)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        for left in reversed(range(REMOVALS_MAX)):
            try:
                shutil.rmtree(path)
            except OSError as error:
                if not os.path.exists(path):
                    return
                # A process that was cleaning it had not ended yet: files came or went meanwhile.
                if left == 0 or error.errno not in (errno.ENOENT, errno.ENOTEMPTY):
                    raise
            else:
                return

    def sync_directory(self, path: str) -> None:
        descriptor = self._open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        except OSError as error:
            raise _not_synced(error) from error
        finally:
            os.close(descriptor)
            self._refill()

    def sync_all(self, path: str) -> None:
        descriptor = self._open(path, os.O_RDONLY)
        try:
            if _syncfs is None:
                os.sync()
            elif _syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise _not_synced(OSError(number, os.strerror(number), path))
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        file = OsFile(self._open(path, os.O_RDONLY))
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()

    def write(self, path: str, data: bytes) -> None:
        file = OsFile(self._open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        try:
            file.write_at(0, data)
        finally:
            file.close()

    def write_atomically(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        file = OsFile(self._open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
        try:
            # By the same descriptor: an error of the disk is told to those that had it open.
            file.write_at(0, data)
            file.sync()
        finally:
            file.close()
        os.rename(temporary, path)
        self.sync_directory(os.path.dirname(path))

    def size(self, path: str) -> int:
        return os.stat(path).st_size

    def modified_ms(self, path: str) -> int:
        return os.stat(path).st_mtime_ns // 1_000_000

    def set_modified_ms(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def lock(self, path: str) -> OsLock:
        return OsLock(path)

    def space(self, path: str) -> tuple[int, int]:
        stat = os.statvfs(path)
        return stat.f_blocks * stat.f_frsize, stat.f_bavail * stat.f_frsize

    def set_mode(self, path: str, mode: int) -> None:
        os.chmod(path, mode)
