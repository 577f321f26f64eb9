"""A process of this machine as its supervisor holds it: its pipes, its lines, its end.

It is in a process group of its own, so that a Ctrl-C at the terminal is for the supervisor to hand
on. Its standard input is a pipe: questions go down by it, and its end is the supervisor's end. What
it writes comes up by a second one, its answers by a third (:mod:`ottla.server.supervision.link`).
"""

import asyncio
import json
import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

READ_BYTES: Final = 1 << 16
LINE_MAX: Final = 1 << 20
"""A longer line is told in pieces."""


class ChildProcess:
    """One incarnation of a node, from its start to its end."""

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        loop: asyncio.AbstractEventLoop,
        *,
        on_line: Callable[[bytes], None],
        on_answer: Callable[[dict[str, object]], None],
    ) -> None:
        """Start it; OSError when that cannot be. ``{answers}`` in the command is a descriptor."""
        self._loop = loop
        answers, theirs = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our own words
                [word.replace("{answers}", str(theirs)) for word in command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                pass_fds=(theirs,),
                process_group=0,
            )
        except OSError:
            os.close(answers)
            raise
        finally:
            os.close(theirs)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions = self._process.stdin.fileno()
        os.set_blocking(self._questions, False)
        self._output = _Lines(loop, self._process.stdout.fileno(), on_line)
        self._answers = _Lines(loop, answers, lambda line: _parsed(line, on_answer))
        self._answers_descriptor = answers

    @property
    def pid(self) -> int:
        return self._process.pid

    def exit_code(self) -> int | None:
        """None while it lives."""
        return self._process.poll()

    def signal(self, number: int) -> None:
        """Sent only if it lives: nobody else can have its id before it was waited for."""
        self._process.send_signal(number)

    def ask(self, question: int, what: str) -> None:
        """Answered by ``on_answer``, or not at all by a process that hangs or ends."""
        with suppress(OSError):
            os.write(self._questions, f"{question} {what}\n".encode("ascii"))

    def close(self) -> None:
        """It has ended; what it wrote last is read."""
        self._output.close()
        self._answers.close()
        os.close(self._answers_descriptor)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(OSError):
                pipe.close()


class _Lines:
    """What comes by a pipe, line by line."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, descriptor: int, on_line: Callable[[bytes], None]
    ) -> None:
        self._loop = loop
        self._descriptor = descriptor
        self._on_line = on_line
        self._rest = b""
        self._is_open = True
        os.set_blocking(descriptor, False)
        loop.add_reader(descriptor, self._read)

    def _read(self) -> bool:
        """Whether there may be more."""
        try:
            received = os.read(self._descriptor, READ_BYTES)
        except BlockingIOError:
            return False
        except OSError:
            received = b""
        if not received:
            self._end()
            return False
        *lines, self._rest = (self._rest + received).split(b"\n")
        for line in lines:
            self._on_line(line)
        if len(self._rest) > LINE_MAX:
            self._on_line(self._rest)
            self._rest = b""
        return True

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.remove_reader(self._descriptor)
            if self._rest:
                self._on_line(self._rest)
                self._rest = b""

    def close(self) -> None:
        """What is there is read; what somebody else still holds open is not waited for."""
        while self._is_open and self._read():
            pass
        self._end()


def _parsed(line: bytes, on_answer: Callable[[dict[str, object]], None]) -> None:
    with suppress(ValueError):
        answer = json.loads(line)
        if isinstance(answer, dict):
            on_answer(answer)
