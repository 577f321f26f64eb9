"""A message that bounds how many items its arrays may have in all.

The bound travels with the bytes: messages may be read at the same time in several threads.
"""

from ottla.common.errors import ProtocolViolation


class BoundedBytes(bytes):
    """Bytes of a message that may have more items than it should: each takes one byte at least."""

    left: int
    """How many more items it may have."""

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ProtocolViolation(f"array of {count}: too many items in one request")


def bounded(data: bytes, items_max: int) -> BoundedBytes:
    message = BoundedBytes(data)
    message.left = items_max
    return message
