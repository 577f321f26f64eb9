"""A remote store that is a directory: the embedded default, or anything that can be mounted.

An object is a file, and its key the path below the root. It is written under another name in
``.tmp``, synced and renamed, so that under its key it is there whole or not at all, also after the
power was lost. The process that opens the store removes what others have left in ``.tmp``: what is
still being written is locked. Several brokers may share a directory.
"""

# Paths are strings: they are made of keys, and checked as such.
# ruff: noqa: PTH100, PTH102, PTH103, PTH104, PTH106, PTH108, PTH112, PTH118, PTH120, PTH123, PTH208

import contextlib
import errno
import fcntl
import itertools
import os
import secrets
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from ottla.tiered.store import (
    Progress,
    RemoteObjectNotFound,
    RemoteStoreError,
    StoredObject,
    unhindered,
)

TEMPORARY: Final = ".tmp"
COPY_CHUNK: Final = 8 << 20
RENAME_ATTEMPTS: Final = 10

_NO_COPY_FILE_RANGE: Final = frozenset(
    {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF, errno.EPERM}
)


class DirectoryStore:
    """See the module. Several threads may use it."""

    def __init__(self, path: str, *, writable: bool = True) -> None:
        """One that is not to be written to is left as it is, also what others have left there."""
        self._root = os.path.abspath(path)
        self._names = itertools.count()
        self._unique = secrets.token_hex(8)
        if not writable:
            return
        try:
            os.makedirs(os.path.join(self._root, TEMPORARY), exist_ok=True)
            _sync_directory(self._root)
            self._sweep()
        except OSError as error:
            _failed(self._root, error)

    def _sweep(self) -> None:
        """Remove what broken-off puts have left."""
        folder = os.path.join(self._root, TEMPORARY)
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            with contextlib.suppress(OSError):
                descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(path)
                finally:
                    os.close(descriptor)

    def _path(self, key: str) -> str:
        parts = key.split("/")
        if TEMPORARY in parts or any(part in {"", ".", ".."} for part in parts) or "\0" in key:
            raise RemoteStoreError(f"no key of an object: {key!r}")
        return os.path.join(self._root, *parts)

    # Writing

    def put(self, key: str, data: bytes) -> None:
        def write(descriptor: int) -> None:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]

        self._put(key, write)

    def put_file(self, key: str, path: str, size: int, progress: Progress = unhindered) -> None:
        def write(descriptor: int) -> None:
            source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _copy(source, descriptor, size, progress)
            finally:
                os.close(source)

        self._put(key, write)

    def _put(self, key: str, write: Callable[[int], None]) -> None:
        target = self._path(key)
        name = f"{self._unique}-{next(self._names)}"
        temporary = os.path.join(self._root, TEMPORARY, name)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(temporary, flags, 0o644)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                write(descriptor)
                os.fsync(descriptor)
                self._rename(temporary, target)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            finally:
                os.close(descriptor)
        except OSError as error:
            _failed(key, error)

    def _rename(self, temporary: str, target: str) -> None:
        folder = os.path.dirname(target)
        for attempt in range(1, RENAME_ATTEMPTS + 1):
            try:
                self._make(folder)
                os.rename(temporary, target)
                break
            except FileNotFoundError:
                # Somebody has removed the last object beside it, and the directory with it.
                if attempt == RENAME_ATTEMPTS:
                    raise
        _sync_directory(folder)

    def _make(self, folder: str) -> None:
        if folder != self._root and not os.path.isdir(folder):
            parent = os.path.dirname(folder)
            self._make(parent)
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder)
            _sync_directory(parent)

    def delete(self, key: str) -> None:
        path = self._path(key)
        folder = os.path.dirname(path)
        try:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(path)
                _sync_directory(folder)
        except OSError as error:
            _failed(key, error)
        with contextlib.suppress(OSError):
            while folder != self._root:
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    # Reading

    def get(self, key: str) -> bytes:
        path = self._path(key)
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            _failed(key, error)

    def get_range(self, key: str, start: int, size: int) -> bytes:
        path = self._path(key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                return os.pread(descriptor, size, start)
            finally:
                os.close(descriptor)
        except OSError as error:
            _failed(key, error)

    def list(self, prefix: str) -> Iterator[StoredObject]:
        folder = prefix.rpartition("/")[0]
        path = self._path(folder) if folder else self._root
        try:
            yield from self._walk(path, f"{folder}/" if folder else "", prefix)
        except OSError as error:
            _failed(prefix, error)

    def _walk(self, path: str, inside: str, prefix: str) -> Iterator[StoredObject]:
        """The objects in a directory whose keys begin with ``inside``, in order."""
        try:
            with os.scandir(path) as found:
                entries = [(each.name + "/" * each.is_dir(), each) for each in found]
        except (FileNotFoundError, NotADirectoryError):
            return
        for name, entry in sorted(entries, key=lambda each: each[0]):
            key = inside + name
            if name.endswith("/"):
                if entry.name != TEMPORARY and (key.startswith(prefix) or prefix.startswith(key)):
                    yield from self._walk(entry.path, key, prefix)
            elif key.startswith(prefix):
                with contextlib.suppress(FileNotFoundError):
                    yield StoredObject(key, entry.stat().st_size)

    def close(self) -> None:
        """Nothing is held open."""


def _failed(what: str, error: OSError) -> NoReturn:
    kind = RemoteObjectNotFound if isinstance(error, FileNotFoundError) else RemoteStoreError
    raise kind(f"{what}: {error}") from error


def _copy(source: int, target: int, size: int, progress: Progress) -> None:
    """In the kernel where it can, otherwise by hand."""
    in_kernel = hasattr(os, "copy_file_range")
    position = 0
    while position < size:
        count = min(COPY_CHUNK, size - position)
        progress(count)
        end = position + count
        while position < end:
            copied, in_kernel = _copy_some(source, target, position, end - position, in_kernel)
            if copied == 0:
                raise RemoteStoreError(f"the file has {position} bytes and not {size}")
            position += copied


def _copy_some(
    source: int, target: int, position: int, count: int, in_kernel: bool
) -> tuple[int, bool]:
    if in_kernel:
        try:
            return os.copy_file_range(source, target, count, position, position), True
        except OSError as error:
            if error.errno not in _NO_COPY_FILE_RANGE:
                raise
    data = os.pread(source, min(count, 1 << 20), position)
    return os.pwrite(target, data, position), False


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
