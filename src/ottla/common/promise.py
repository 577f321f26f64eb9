"""An answer that may come later, without an event loop.

Cores and handlers must not know asyncio, yet some requests wait: for a commit, for bytes, for a
deadline. A handler awaits a :class:`Promise`; its fulfilment runs the rest of the handler there
and then. :func:`run` steps a coroutine as far as it goes and makes no task: a handler that never
has to wait costs one ``send``.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ottla.common.mistakes import raise_first

T = TypeVar("T")


class Promise(Generic[T]):
    """A value or an error that is set once; callbacks run at once, in order of arrival.

    All of them run. What one raises is a mistake of ours, and is raised behind the last.
    """

    __slots__ = ("_callbacks", "_error", "_value", "done")

    def __init__(self) -> None:
        self.done = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] = []

    def fulfil(self, value: T) -> None:
        assert not self.done
        self.done = True
        self._value = value
        self._run_callbacks()

    def fail(self, error: BaseException) -> None:
        assert not self.done
        self.done = True
        self._error = error
        self._run_callbacks()

    def _run_callbacks(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        errors: list[Exception] | None = None
        for callback in callbacks:
            try:
                callback(self)
            except Exception as error:  # noqa: BLE001 - raised below
                errors = errors or []
                errors.append(error)
        if errors is not None:
            raise_first(errors)

    def result(self) -> T:
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def when_done(self, callback: Callable[["Promise[T]"], None]) -> None:
        if self.done:
            callback(self)
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator["Promise[T]", None, T]:
        if not self.done:
            yield self
        return self.result()


def settle_by(promise: Promise[T], work: Callable[[], T]) -> None:
    """Do the work, and settle the promise with what comes of it: a value, or what it raises."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - the error belongs to the promise
        promise.fail(error)
    else:
        promise.fulfil(result)


def fulfilled(value: T) -> Promise[T]:
    promise: Promise[T] = Promise()
    promise.fulfil(value)
    return promise


def first_of(*promises: Promise[Any]) -> Promise[None]:
    """Fulfilled when one of them is settled, whatever with."""
    first: Promise[None] = Promise()

    def settle(_: Promise[Any]) -> None:
        if not first.done:
            first.fulfil(None)

    for promise in promises:
        promise.when_done(settle)
    return first


def run(coroutine: Coroutine[Any, None, T]) -> Promise[T]:
    """Step ``coroutine`` now; what it awaits must be promises."""
    promise: Promise[T] = Promise()
    _step(coroutine, promise)
    return promise


def _step(coroutine: Coroutine[Any, None, T], promise: Promise[T]) -> None:
    try:
        awaited = coroutine.send(None)
    except StopIteration as stop:
        promise.fulfil(stop.value)
    except Exception as error:  # noqa: BLE001 - the error belongs to the promise
        promise.fail(error)
    else:
        awaited.when_done(lambda _: _step(coroutine, promise))
