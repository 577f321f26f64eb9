"""What all generated classes have in common, and the two ways to use a whole message.

``from_bytes`` is where bytes of a peer become objects: whatever is wrong with them, it raises
ProtocolViolation and nothing else.
"""

from struct import error as struct_error
from typing import ClassVar, Generic, Protocol, TypeVar, cast

from ottla.common.errors import ProtocolViolation
from ottla.protocol.bounded import bounded
from ottla.protocol.primitives import UNBOUNDED, UnknownTags, Writer


class Struct:
    """Named fields; equal when all of them are."""

    __slots__: tuple[str, ...] = ()

    unknown_tagged_fields: UnknownTags | None

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        fields = [f"{name}={getattr(self, name)!r}" for name in self.__slots__[:-1]]
        if self.unknown_tagged_fields:
            fields.append(f"unknown_tagged_fields={self.unknown_tagged_fields!r}")
        return f"{type(self).__name__}({', '.join(fields)})"


class Message(Struct):
    """A struct that stands alone: a request, a response, a header or a record."""

    __slots__: tuple[str, ...] = ()

    API_KEY: ClassVar[int] = -1
    LOWEST_VERSION: ClassVar[int]
    HIGHEST_VERSION: ClassVar[int]
    FLEXIBLE_FROM: ClassVar[int]

    @staticmethod
    def decode(data: bytes, pos: int, version: int) -> "tuple[Message, int]":
        raise NotImplementedError

    def encode(self, out: Writer, version: int) -> None:
        raise NotImplementedError


class Response(Message):
    """What is answered to a request."""

    __slots__: tuple[str, ...] = ()


class CodedResponse(Response):
    """A response with an error for the whole of it."""

    __slots__: tuple[str, ...] = ()

    error_code: int


class ExplainedResponse(CodedResponse):
    """And with words for people beside it."""

    __slots__: tuple[str, ...] = ()

    error_message: str | None


M = TypeVar("M", bound=Message)
R_co = TypeVar("R_co", bound=Response, covariant=True)
R = TypeVar("R", bound=Response)


class Request(Message, Generic[R_co]):
    """What a peer asks for; ``R_co`` is what it is answered with."""

    __slots__: tuple[str, ...] = ()

    RESPONSE: ClassVar[type[Response]]


Q_co = TypeVar("Q_co", covariant=True)


class RequestClass(Protocol[Q_co, R_co]):
    """The class of a request, as far as it tells what its requests and their responses are."""

    @property
    def API_KEY(self) -> int: ...  # noqa: N802 - as in the class

    @property
    def RESPONSE(self) -> type[R_co]: ...  # noqa: N802

    def decode(self, data: bytes, pos: int, version: int, /) -> tuple[Q_co, int]: ...


def response_class(request: type[Request[R]]) -> type[R]:
    """The class of the response, which the generator writes into each request."""
    return cast("type[R]", request.RESPONSE)


def to_bytes(message: Message, version: int) -> bytes:
    """ValueError when the message says something that the version cannot."""
    if not message.LOWEST_VERSION <= version <= message.HIGHEST_VERSION:
        raise ValueError(f"{type(message).__name__} has no version {version}")
    out = Writer()
    try:
        message.encode(out, version)
    except struct_error as error:
        raise ValueError(f"{type(message).__name__}: {error}") from None
    return out.getvalue()


def from_bytes(cls: type[M], data: bytes, version: int) -> M:
    """The message that ``data`` is, to the last byte."""
    message, pos = from_buffer(cls, data, 0, version)
    if pos != len(data):
        raise ProtocolViolation(f"{cls.__name__}: {len(data) - pos} bytes too many")
    return message


def from_buffer(
    cls: type[M], data: bytes, pos: int, version: int, items_max: int = UNBOUNDED
) -> tuple[M, int]:
    """The message that begins at ``pos``, and where it ends.

    ``items_max`` is what its arrays may have in all.
    """
    if not cls.LOWEST_VERSION <= version <= cls.HIGHEST_VERSION:
        raise ProtocolViolation(f"{cls.__name__} has no version {version}")
    try:
        if len(data) - pos > items_max:
            data = bounded(data, items_max)
        message, pos = cls.decode(data, pos, version)
    except ProtocolViolation as error:
        raise ProtocolViolation(f"{cls.__name__} v{version}: {error}") from None
    except (IndexError, struct_error):
        raise ProtocolViolation(f"{cls.__name__} v{version}: cut short") from None
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"{cls.__name__} v{version}: {error}") from None
    return cast("M", message), pos
