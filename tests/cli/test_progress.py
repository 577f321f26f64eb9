"""The progress line shows where somebody looks, says what is true, and leaves nothing behind."""

import pytest

from ottla.cli.progress import EVERY_SECONDS, FIRST_SECONDS, Progress, size_text, time_text


class Screen:
    """A terminal of one line, or something that is none."""

    def __init__(self, *, terminal: bool = True) -> None:
        self._terminal = terminal
        self.written: list[str] = []

    def write(self, text: str, /) -> int:
        self.written.append(text)
        return len(text)

    def flush(self) -> None:
        """Nothing is held back."""

    def isatty(self) -> bool:
        return self._terminal

    @property
    def line(self) -> str:
        """What is to be seen now."""
        return "".join(self.written).rpartition("\r\x1b[K")[2]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_bytes_rate_and_time_left_are_shown(clock: Clock) -> None:
    screen = Screen()
    with Progress("verifying", 400_000_000, stream=screen, clock=clock) as progress:
        clock.now += 2
        progress.update(100_000_000)
        assert screen.line == "verifying  100 MB of 400 MB  25%  50.0 MB/s  0:06 left"
        clock.now += 2
        progress.update(300_000_000)
        assert screen.line == "verifying  400 MB of 400 MB  100%  100 MB/s  0:00 left"
    assert screen.line == ""


def test_where_the_end_is_not_known_none_is_promised(clock: Clock) -> None:
    screen = Screen()
    with Progress("reading", 0, stream=screen, clock=clock) as progress:
        clock.now += 1
        progress.update(2_500)
        assert screen.line == "reading  2.5 kB  2.5 kB/s"


def test_more_than_was_promised_is_not_more_than_all(clock: Clock) -> None:
    progress = Progress("reading", 10, stream=Screen(), clock=clock)
    progress.update(20)
    assert progress.line(1) == "reading  20 B of 10 B  100%  20 B/s  0:00 left"


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (True, True), (False, True)])
def test_nothing_is_written_where_nobody_looks(clock: Clock, terminal: bool, quiet: bool) -> None:
    screen = Screen(terminal=terminal)
    with Progress("x", 10, quiet=quiet, stream=screen, clock=clock) as progress:
        clock.now += 60
        progress.update(5)
    assert screen.written == []
    assert progress.done == 5


def test_short_work_stays_without_a_word(clock: Clock) -> None:
    screen = Screen()
    with Progress("x", 10, stream=screen, clock=clock) as progress:
        clock.now += FIRST_SECONDS / 2
        progress.update(10)
    assert screen.written == []


def test_the_line_is_not_written_for_every_piece(clock: Clock) -> None:
    screen = Screen()
    with Progress("x", 10, stream=screen, clock=clock) as progress:
        clock.now += 1
        for _ in range(1000):
            progress.update(1)
        assert len(screen.written) == 1
        clock.now += EVERY_SECONDS
        progress.update(1)
        assert len(screen.written) == 2


def test_the_line_goes_when_the_work_fails(clock: Clock) -> None:
    screen = Screen()
    with (
        pytest.raises(KeyError),
        Progress("x", 10, stream=screen, clock=clock) as progress,
    ):
        clock.now += 1
        progress.update(1)
        raise KeyError
    assert screen.line == ""


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (99_940, "99.9 kB"),
        (99_960, "100 kB"),
        (999_700, "1.0 MB"),
        (1_500_000_000, "1.5 GB"),
        (5 * 10**18, "5000.0 PB"),
    ],
)
def test_sizes_are_short(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_are_those_of_a_clock() -> None:
    assert [time_text(each) for each in (0.4, 7, 750, 11_100)] == [
        "0:00",
        "0:07",
        "12:30",
        "3:05:00",
    ]
