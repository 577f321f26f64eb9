"""What an error of the file system makes of an operation of a log."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from ottla.storage.log import Log

P = ParamSpec("P")
T = TypeVar("T")


def on_disk(method: "Callable[Concatenate[Log, P], T]") -> "Callable[Concatenate[Log, P], T]":
    """An operation that uses the disk and has no way back: an OSError ends the log."""

    @wraps(method)
    def guarded(log: "Log", /, *args: P.args, **kwargs: P.kwargs) -> T:
        if log.failure is not None:
            raise log.failed(log.failure)
        open_files = log.segments.open_files
        was_urgent, open_files.is_urgent = open_files.is_urgent, True
        try:
            return method(log, *args, **kwargs)
        except OSError as error:
            raise log.failed(error) from error
        finally:
            open_files.is_urgent = was_urgent

    return guarded


def on_disk_again(method: "Callable[Concatenate[Log, P], T]") -> "Callable[Concatenate[Log, P], T]":
    """The same for one that may be tried again: only an error of the disk ends the log."""

    @wraps(method)
    def guarded(log: "Log", /, *args: P.args, **kwargs: P.kwargs) -> T:
        if log.failure is not None:
            raise log.failed(log.failure)
        try:
            return method(log, *args, **kwargs)
        except OSError as error:
            raise log.refused(error) from error

    return guarded
