"""Lines of standard input: none is held back, none is changed."""

import io
import os
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.cli.input_lines import input_lines


class Pipe:
    """Standard input that is a pipe."""

    def __init__(self) -> None:
        self.reader, self.writer = os.pipe()

    def fileno(self) -> int:
        return self.reader


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    one = Pipe()
    monkeypatch.setattr(sys, "stdin", one)
    yield one
    os.close(one.reader)


def test_what_has_come_is_handed_on_before_more_is_waited_for(pipe: Pipe) -> None:
    seen: list[bytes] = []
    waits: list[list[bytes]] = []

    def before_waiting() -> None:
        """The side that brings lines goes on only when those before have been handed on."""
        waits.append(list(seen))
        if len(waits) == 1:
            os.write(pipe.writer, b"a\nb\nc")
        elif len(waits) == 2:
            os.write(pipe.writer, b"d\n\ne")
        else:
            os.close(pipe.writer)

    for line in input_lines(before_waiting):
        seen.append(line)  # noqa: PERF402 - it is looked at in between
    assert seen == [b"a\n", b"b\n", b"cd\n", b"\n", b"e"]
    assert waits == [[], [b"a\n", b"b\n"], [b"a\n", b"b\n", b"cd\n", b"\n"]]


@given(st.lists(st.binary(max_size=5) | st.just(b"x" * 70_000), max_size=8))
def test_lines_are_those_of_a_file(pieces: list[bytes]) -> None:
    text = b"\n".join(pieces)
    one = Pipe()

    def write() -> None:
        with os.fdopen(one.writer, "wb") as writer:
            writer.write(text)

    thread = threading.Thread(target=write)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdin", one)
        found = list(input_lines(lambda: None))
    thread.join()
    os.close(one.reader)
    assert found == io.BytesIO(text).readlines()
