"""The remote store: named objects that are written whole and read by ranges.

Every call blocks and is made from a thread of its own. An object that was put is there for every
later reader; nothing is ever changed in place. Errors that may pass by themselves are
:class:`RemoteStoreError`; what is not there is :class:`RemoteObjectNotFound`.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

Progress = Callable[[int], None]
"""Told of so many bytes before they are sent: it may wait, and ends the copy by raising."""


def unhindered(_size: int) -> None:
    """The progress of a copy that nobody slows down or cancels."""


class RemoteStoreError(Exception):
    """The store did not do it; trying again later may help."""


class RemoteObjectNotFound(RemoteStoreError):
    """There is no object of that key."""


class StoredObject(NamedTuple):
    key: str
    size: int


class RemoteStore(Protocol):
    def put(self, key: str, data: bytes) -> None:
        """Make or replace an object."""
        ...

    def put_file(self, key: str, path: str, size: int, progress: Progress = unhindered) -> None:
        """Make or replace an object of the first ``size`` bytes of a local file.

        RemoteStoreError when it has fewer. ``progress`` is told every few megabytes; what it
        raises comes out of here, and the object is as it was before.
        """
        ...

    def get(self, key: str) -> bytes: ...

    def get_range(self, key: str, start: int, size: int) -> bytes:
        """At most ``size`` bytes from ``start`` on; fewer only at the end of the object."""
        ...

    def list(self, prefix: str) -> Iterator[StoredObject]:
        """All objects whose keys begin with ``prefix``, in order of their keys."""
        ...

    def delete(self, key: str) -> None:
        """Remove an object; it need not be there."""
        ...

    def close(self) -> None: ...
