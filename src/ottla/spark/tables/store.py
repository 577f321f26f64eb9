"""The place of a table's files: a directory, or a prefix of an object store.

Data is read and written by Arrow. What Arrow cannot do is to make a file only if there is none of
that name, which is how a commit is decided: in a directory that is a hard link, in an object store
a conditional put by ``obstore``. Nor does it wait for the disk: what a commit names is made durable
(``sync``) before the commit is.
"""

import os
import urllib.parse
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyarrow import fs

from ottla.spark.tables.errors import BadTable

BUCKETS: Final = ("s3", "gs", "az")


class StoredFile(NamedTuple):
    """``path`` is relative to the location."""

    path: str
    size: int
    modified_ms: int


class Store:
    """Paths are relative to the location. Travels to executors, where it opens itself again."""

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self.location = location
        self._options = dict(options)
        parts = urllib.parse.urlsplit(location)
        self.is_local = parts.scheme in {"", "file"}
        if self.is_local:
            path = urllib.parse.unquote(parts.path) if parts.scheme else location
            self.root = os.path.abspath(path)  # noqa: PTH100
            self.url = f"file://{self.root}"
        elif parts.scheme in BUCKETS:
            self.root = f"{parts.netloc}{parts.path}".rstrip("/")
            self.url = location.rstrip("/")
        else:
            known = ", ".join(f"{scheme}://" for scheme in ("file", *BUCKETS))
            raise BadTable(f"{location}: expected a directory or one of {known}")
        self._opened: fs.FileSystem | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_opened": None}

    @property
    def files(self) -> fs.FileSystem:
        if self._opened is None:
            self._opened = self._open()
        return self._opened

    def _open(self) -> fs.FileSystem:
        if self.is_local:
            return fs.LocalFileSystem()
        scheme = urllib.parse.urlsplit(self.location).scheme
        given = self._options
        if scheme == "s3":
            endpoint = given.get("endpoint", "")
            known = {
                "access_key": given.get("access.key.id"),
                "secret_key": given.get("secret.access.key"),
                "region": given.get("region"),
                "endpoint_override": endpoint.partition("://")[2] or endpoint or None,
                "scheme": "http" if endpoint.startswith("http://") else None,
            }
            return fs.S3FileSystem(**{name: value for name, value in known.items() if value})
        try:
            return fs.FileSystem.from_uri(self.location)[0]
        except pa.ArrowInvalid as error:
            raise BadTable(f"{self.location}: Arrow cannot open it: {error}") from error

    def full(self, path: str) -> str:
        """As ``files`` wants it."""
        return f"{self.root}/{path}"

    def make_directory(self, path: str) -> None:
        if self.is_local:
            _make_directories(self.full(path))

    def sync(self, path: str) -> None:
        """When this returns, a file is on the disk, also under its name; a bucket needs no word."""
        if self.is_local:
            _sync(self.full(path))
            _sync(os.path.dirname(self.full(path)))  # noqa: PTH120

    def read(self, path: str) -> bytes:
        with self.files.open_input_stream(self.full(path)) as stream:
            return bytes(stream.read())

    def exists(self, path: str) -> bool:
        return bool(self.files.get_file_info(self.full(path)).type == fs.FileType.File)

    def list(self, directory: str) -> list[StoredFile]:
        selector = fs.FileSelector(self.full(directory), allow_not_found=True, recursive=True)
        return [
            StoredFile(
                info.path[len(self.root) + 1 :], info.size, (info.mtime_ns or 0) // 1_000_000
            )
            for info in self.files.get_file_info(selector)
            if info.type == fs.FileType.File
        ]

    def put(self, path: str, data: bytes) -> None:
        """Instead of what may be there; for what only helps to find things."""
        self.make_directory(path.rpartition("/")[0])
        with self.files.open_output_stream(self.full(path)) as stream:
            stream.write(data)

    def put_new(self, path: str, data: bytes) -> None:
        """Whole or not at all; FileExistsError if there is one."""
        if self.is_local:
            _link_new(self.full(path), data)
            return
        from ottla.tiered.driver.object_store import open_bucket

        settings = {f"ottla.remote.store.{name}": value for name, value in self._options.items()}
        open_bucket(self.url, settings).put_new(path, data)

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            try:
                self.files.delete_file(self.full(path))
            except FileNotFoundError:
                continue

    def delete_all(self) -> None:
        if self.files.get_file_info(self.root).type != fs.FileType.NotFound:
            self.files.delete_dir(self.root)


def _link_new(path: str, data: bytes) -> None:
    """A name of its own first, then the real one, which is refused if it is taken."""
    directory, name = os.path.split(path)
    _make_directories(directory)
    partial = f"{directory}/.{name}.{os.urandom(8).hex()}"
    try:
        with open(partial, "xb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)
    finally:
        os.unlink(partial)  # noqa: PTH108
    _sync(directory)


def _make_directories(path: str) -> None:
    """Those that are missing; a name is durable when the directory around it is."""
    if os.path.isdir(path):  # noqa: PTH112
        return
    around = os.path.dirname(path)  # noqa: PTH120
    _make_directories(around)
    with suppress(FileExistsError):
        os.mkdir(path)  # noqa: PTH102
    _sync(around)


def _sync(path: str) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
