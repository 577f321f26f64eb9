"""A remote store in memory that fails when it is told to.

As with a real one nothing partial is ever seen under a key: a put that fails has either not
happened, or has happened and only its answer was lost.
"""

from collections.abc import Callable, Iterator

from ottla.storage.files import Filesystem, Mutex
from ottla.tiered.store import (
    Progress,
    RemoteObjectNotFound,
    RemoteStoreError,
    StoredObject,
    unhindered,
)

CHUNK_SIZE = 1 << 20


class MemoryStore:
    """See the module. Files that are put come from ``filesystem``; several threads may use it."""

    def __init__(self, filesystem: Filesystem, objects: dict[str, bytes] | None = None) -> None:
        """``objects`` are those of a store that several nodes share."""
        self._filesystem = filesystem
        self._mutex = Mutex()
        self._fail_at: int | None = None
        self._takes_effect = False
        self.objects: dict[str, bytes] = {} if objects is None else objects
        self.operations = 0
        """Calls so far, each put, get, list and delete being one."""
        self.fail: Callable[[str, str], RemoteStoreError | None] = lambda _operation, _key: None
        """Asked before each operation, by its kind and key; what it answers is raised."""

    def fail_at(self, operation: int, *, takes_effect: bool = False) -> None:
        """Let the so-many-th operation from now on fail, once; 0 is the next."""
        self._fail_at = self.operations + operation
        self._takes_effect = takes_effect

    def _before(self, operation: str, key: str) -> bool:
        """Whether the operation is to fail when it is done."""
        number = self.operations
        self.operations += 1
        error = self.fail(operation, key)
        if error is not None:
            raise error
        if number != self._fail_at:
            return False
        self._fail_at = None
        if not self._takes_effect:
            raise RemoteStoreError(f"{operation} of {key} fails as it was told to")
        return True

    @staticmethod
    def _after(fails: bool, operation: str, key: str) -> None:
        if fails:
            raise RemoteStoreError(f"the answer to {operation} of {key} is lost as it was told to")

    def put(self, key: str, data: bytes) -> None:
        with self._mutex:
            fails = self._before("put", key)
            self.objects[key] = bytes(data)
            self._after(fails, "put", key)

    def put_file(self, key: str, path: str, size: int, progress: Progress = unhindered) -> None:
        try:
            file = self._filesystem.open(path)
            try:
                parts = []
                for start in range(0, size, CHUNK_SIZE):
                    progress(min(CHUNK_SIZE, size - start))
                    parts.append(file.read_at(start, min(CHUNK_SIZE, size - start)))
            finally:
                file.close()
        except OSError as error:
            raise RemoteStoreError(f"{path} cannot be read: {error}") from error
        data = b"".join(parts)
        if len(data) != size:
            raise RemoteStoreError(f"{path} has {len(data)} bytes and not {size}")
        self.put(key, data)

    def get(self, key: str) -> bytes:
        with self._mutex:
            fails = self._before("get", key)
            data = self._find(key)
            self._after(fails, "get", key)
            return data

    def get_range(self, key: str, start: int, size: int) -> bytes:
        with self._mutex:
            fails = self._before("get_range", key)
            data = self._find(key)[start : start + size]
            self._after(fails, "get_range", key)
            return data

    def _find(self, key: str) -> bytes:
        try:
            return self.objects[key]
        except KeyError:
            raise RemoteObjectNotFound(key) from None

    def list(self, prefix: str) -> Iterator[StoredObject]:
        with self._mutex:
            fails = self._before("list", prefix)
            found = [
                StoredObject(key, len(data))
                for key, data in sorted(self.objects.items())
                if key.startswith(prefix)
            ]
            self._after(fails, "list", prefix)
        return iter(found)

    def delete(self, key: str) -> None:
        with self._mutex:
            fails = self._before("delete", key)
            self.objects.pop(key, None)
            self._after(fails, "delete", key)

    def close(self) -> None:
        """Nothing is held open."""
