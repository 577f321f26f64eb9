"""How a client says that something went wrong.

ConnectionError
BrokerUnavailable       no broker answered; what was tried is in it
TlsFailed             no broker that is trusted, or none that trusts us; again is the same
ApiError                  a broker refused; one class per code, as everywhere
SomeRefused             of several items some were refused; the others are done
"""

from collections.abc import Mapping
from typing import Any, Final

from ottla.common import errors
from ottla.common.errors import ApiError, ErrorCode

_CLASSES: Final[dict[int, type[ApiError]]] = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, ApiError) and kind is not ApiError
}


def refusal(code: int, message: str | None = None) -> ApiError:
    """The exception that stands for an error code of a response."""
    kind = _CLASSES.get(code)
    if kind is not None:
        return kind(message or kind.code.name)
    if code == ErrorCode.UNKNOWN_SERVER_ERROR:
        return ApiError(message or "the broker met an unexpected error")
    return ApiError(f"error code {code}" + (f": {message}" if message else ""))


def check(code: int, message: str | None = None) -> None:
    """Raise what ``code`` stands for, unless it stands for success."""
    if code != ErrorCode.NONE:
        raise refusal(code, message)


class BrokerUnavailable(ConnectionError):
    """No broker could be asked. ``tried`` has each address and what happened there."""

    def __init__(self, what: str, tried: list[tuple[str, str]]) -> None:
        listed = "; ".join(f"{address}: {reason}" for address, reason in tried)
        super().__init__(f"{what} ({listed})" if listed else what)
        self.tried = tried


class TlsFailed(BrokerUnavailable):
    """Certificates or versions do not go together: asking again does not help."""


class SomeRefused(ApiError):
    """A request for several items of which some failed; its code is that of the first."""

    def __init__(self, refused: Mapping[Any, ApiError], done: Mapping[Any, Any]) -> None:
        assert refused
        listed = "; ".join(
            f"{item}: {error.code.name}" + (f" ({error})" if str(error) != error.code.name else "")
            for item, error in refused.items()
        )
        super().__init__(listed)
        self.refused = dict(refused)
        self.done = dict(done)
        self.code = next(iter(refused.values())).code  # type: ignore[misc]
