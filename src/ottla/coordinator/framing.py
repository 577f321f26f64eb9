"""How records of coordinators begin: keys and values with two bytes that say what follows.

A key says which kind of record it is, a value which version it has.
"""

from struct import Struct, error
from typing import Final

from ottla.common.errors import ProtocolViolation
from ottla.protocol.message import Message
from ottla.protocol.primitives import Writer

PREFIX_SIZE: Final = 2
_INT16: Final = Struct(">h")


def prefixed(prefix: int, message: Message, version: int) -> bytes:
    out = Writer()
    out.write(_INT16.pack(prefix))
    message.encode(out, version)
    return out.getvalue()


def prefix_of(data: bytes) -> int:
    try:
        (number,) = _INT16.unpack_from(data)
    except error:
        raise ProtocolViolation("a coordinator record without a version") from None
    assert isinstance(number, int)
    return number
