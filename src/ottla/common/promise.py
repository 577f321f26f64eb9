"""An answer that may come later, without an event loop.

Cores and handlers must not know asyncio, yet some requests wait: for a commit, for bytes, for a
deadline. A handler awaits a :class:`Promise`. To settle it only enqueues the rest of the handler,
which goes on in the same turn of the node (:mod:`ottla.common.turn`), when what is at work now has
come to its end. :func:`run` steps a coroutine as far as it goes and makes no task: a handler that
never has to wait costs one ``send``.
"""

from collections.abc import Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ottla.common.turn import Turn

T = TypeVar("T")


class Promise(Generic[T]):
    """A value or an error that is set once; callbacks are called in order of arrival, each once.

    They are called by the turn, never by ``fulfil``, ``fail`` or ``when_done`` itself.
    """

    __slots__ = ("_callback", "_callbacks", "_error", "_turn", "_value", "done")

    def __init__(self, turn: Turn) -> None:
        self.done = False
        self._turn = turn
        self._value: T | None = None
        self._error: BaseException | None = None
        self._callback: Callable[[Promise[T]], None] | None = None
        self._callbacks: list[Callable[[Promise[T]], None]] | None = None
        """Those behind the first; most promises have one."""

    def fulfil(self, value: T) -> None:
        assert not self.done
        self.done = True
        self._value = value
        if self._callback is not None:
            self._enqueue_callbacks(self._callback)

    def fail(self, error: BaseException) -> None:
        assert not self.done
        self.done = True
        self._error = error
        if self._callback is not None:
            self._enqueue_callbacks(self._callback)

    def _enqueue_callbacks(self, first: "Callable[[Promise[T]], None]") -> None:
        self._callback = None
        self._turn.enqueue(first, self)
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            for callback in callbacks:
                self._turn.enqueue(callback, self)

    def result(self) -> T:
        assert self.done
        if self._error is not None:
            raise self._error
        return self._value  # type: ignore[return-value]

    def when_done(self, callback: Callable[["Promise[T]"], None]) -> None:
        if self.done:
            self._turn.enqueue(callback, self)
        elif self._callback is None:
            self._callback = callback
        elif self._callbacks is None:
            self._callbacks = [callback]
        else:
            self._callbacks.append(callback)

    def __await__(self) -> Generator["Promise[T]", None, T]:
        # A coroutine that awaits what is done has control already, and goes on.
        if not self.done:
            yield self
        return self.result()


def settle_by(promise: Promise[T], work: Callable[[], T]) -> None:
    """Do the work, and settle the promise with what comes of it: a value, or what it raises."""
    try:
        result = work()
    except Exception as error:  # noqa: BLE001 - the error belongs to the reader of the promise
        promise.fail(error)
    else:
        promise.fulfil(result)


def settle_with(promise: Promise[Any], value: object) -> None:
    """Settle the promise with a value, or when that is a promise itself, as that one is."""
    if isinstance(value, Promise):
        value.when_done(lambda done: settle_by(promise, done.result))
    else:
        promise.fulfil(value)


def fulfilled(turn: Turn, value: T) -> Promise[T]:
    promise: Promise[T] = Promise(turn)
    promise.fulfil(value)
    return promise


def first_of(turn: Turn, *promises: Promise[Any]) -> Promise[None]:
    """Fulfilled when one of them is settled, whatever with."""
    first: Promise[None] = Promise(turn)

    def settle(_: Promise[Any]) -> None:
        if not first.done:
            first.fulfil(None)

    for promise in promises:
        promise.when_done(settle)
    return first


def failed(turn: Turn, error: BaseException) -> Promise[T]:
    promise: Promise[T] = Promise(turn)
    promise.fail(error)
    return promise


def run(turn: Turn, coroutine: Coroutine[Any, None, T]) -> Promise[T]:
    """Step ``coroutine`` now; what it awaits must be promises."""
    promise: Promise[T] = Promise(turn)
    _step(coroutine, promise)
    return promise


def _step(coroutine: Coroutine[Any, None, T], promise: Promise[T]) -> None:
    try:
        awaited = coroutine.send(None)
    except StopIteration as stop:
        promise.fulfil(stop.value)
    except Exception as error:  # noqa: BLE001 - the error belongs to the reader of the promise
        promise.fail(error)
    else:
        awaited.when_done(lambda _: _step(coroutine, promise))
