"""A process's end of what ties it to its supervisor: two pipes, with a line for each word.

Down, by standard input, come questions; the end of it says that the supervisor is gone, and the
process stops. Up goes ``{"event": "serving"}`` when it serves, and an answer for each question:
``{"id": 7, ...}``, for which its loop must turn. This is the one place where a supervisor learns of
a process whatever it wants to know; a new question is a new entry of :data:`QUESTIONS`.
"""

import asyncio
import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ottla.server.supervision.sync import find_unrest

if TYPE_CHECKING:
    from ottla.server.main import Running

ORPHAN_SECONDS: Final = (2.0, 18.0)
"""How long a node whose parent is gone may take to hand over its partitions, and to stop."""
LINE_MAX: Final = 1 << 16
SYNC: Final = "sync"
ALIVE: Final = "alive"


class Link:
    def __init__(self, answers_to: int | None) -> None:
        """``answers_to`` is the descriptor of the pipe up, if there is one."""
        self._answers_to = answers_to
        if answers_to is not None:
            os.set_inheritable(answers_to, False)
        self._running: Running | None = None

    def watch(self) -> None:
        """Begin to listen, in a thread: it must hear of the end even if the loop hangs."""
        threading.Thread(target=self._listen, name="ottla-parent", daemon=True).start()

    def serving(self, running: "Running") -> None:
        """The node serves from now on."""
        self._running = running
        self._tell({"event": "serving", "ports": running.node.ports})

    def _listen(self) -> None:
        rest = b""
        while received := os.read(0, 1024):
            *lines, rest = (rest + received).split(b"\n")
            for line in lines:
                self._asked(line.decode("ascii", errors="replace").split())
            if len(rest) > LINE_MAX:
                break
        for seconds in ORPHAN_SECONDS:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(seconds)
        os._exit(1)

    def _asked(self, words: list[str]) -> None:
        """``id question``; a node that does not serve yet answers so."""
        if len(words) != 2 or not words[0].isdecimal():
            return
        question, running = QUESTIONS.get(words[1]), self._running
        if running is None or question is None:
            reason = "unknown question" if question is None else "it does not serve yet"
            self._tell({"id": int(words[0]), "error": reason})
            return

        def answer(found: dict[str, object]) -> None:
            self._tell({"id": int(words[0]), **found})

        with suppress(RuntimeError):  # the loop has ended, and the process is about to
            running.loop.call_soon_threadsafe(question, running, answer)

    def _tell(self, what: dict[str, object]) -> None:
        if self._answers_to is not None:
            with suppress(OSError):  # nobody listens any more: the other pipe tells that
                os.write(self._answers_to, json.dumps(what).encode("ascii") + b"\n")


def _answer_sync(running: "Running", answer: Callable[[dict[str, object]], None]) -> None:
    """In steps, so that requests are answered between them."""
    _step(running.loop, find_unrest(running.node.image), answer)


def _step(
    loop: asyncio.AbstractEventLoop,
    search: Iterator[str | None],
    answer: Callable[[dict[str, object]], None],
) -> None:
    try:
        unrest = next(search)
    except StopIteration:
        answer({"unrest": None})
        return
    if unrest is None:
        loop.call_soon(_step, loop, search, answer)
    else:
        answer({"unrest": unrest})


def _answer_alive(_running: "Running", answer: Callable[[dict[str, object]], None]) -> None:
    """A loop that hangs comes to no answer."""
    answer({"event": "alive"})


QUESTIONS: Final[dict[str, Callable[["Running", Callable[[dict[str, object]], None]], None]]] = {
    SYNC: _answer_sync,
    ALIVE: _answer_alive,
}
"""What a supervisor may ask, by name; each is called on the node's loop."""
