"""What the demo shows, and where."""

import io

from hypothesis import given
from hypothesis import strategies as st

from ottla.demo.figures import Figures, Rates, Stage, line, screen
from ottla.demo.results import WINDOW_MS, LastMinute, Sale, parse_sale
from ottla.demo.terminal import Display

SALE = Sale("o-1", "Ottla Samsa", "CZ", 1_299)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_rate_is_that_of_the_last_seconds() -> None:
    rates = Rates()
    assert rates.sample(0, {"orders": 100}) == {"orders": 0}
    assert rates.sample(1, {"orders": 200}) == {"orders": 100}
    for second in range(2, 19):
        rates.sample(second, {"orders": 200 + 10 * (second - 1)})
    assert rates.sample(19, {"orders": 380}) == {"orders": 10}
    assert rates.sample(20, {"orders": 390, "payments": 9})["payments"] == 0


def test_the_screen_has_topics_stages_and_what_comes_back() -> None:
    figures = Figures(
        75.4,
        [Stage("orders", 1_234_567, 50.4)],
        "running",
        [Stage("enriched", 12, 3, "batch 0.8 s")],
        2,
        2_598,
        [("CZ", 1_299), ("DE", 650)],
        SALE,
        "no broker",
    )
    lines = screen(figures, 100)
    text = "\n".join(lines)
    assert "1:15 since the start" in lines[0]
    for part in (
        "1,234,567",
        "batch 0.8 s",
        "2 orders of 25.98",
        "o-1 of Ottla Samsa",
        "no broker",
    ):
        assert part in text
    bars = [each.count("█") for each in lines if "█" in each]
    assert bars == [24, 12]


@given(st.integers(0, 200), st.integers(0, 10**12))
def test_no_line_is_wider_than_the_terminal(width: int, amount: int) -> None:
    long = Stage("a-very-long-name-of-a-stage" * 3, amount, amount, "a note" * 10)
    figures = Figures(1, [long], "running", [long], 1, amount, [("CZ", amount)], SALE)
    assert max(map(len, screen(figures, width))) < max(width, 40)


def test_one_line_says_it_for_logs() -> None:
    topics = [Stage("orders", 10, 5), Stage("payments", 20, 6), Stage("back", 7, 1)]
    text = line(Figures(5, topics, "running"), ["orders", "payments"], "back", "dead")
    assert "written 30 (11/s)" in text
    assert "enriched 7 (1/s)" in text
    assert "dead letters 0" in text


def test_a_terminal_is_rewritten_in_place_and_what_is_said_stays_above() -> None:
    stream = Tty()
    display = Display(stream, size=lambda: (80, 24))
    display.show(["a", "b"])
    display.show(["c"])
    display.say("told")
    display.say("told again")
    assert stream.getvalue() == "a\nb\n\x1b[2F\x1b[Jc\n\x1b[1F\x1b[Jtold\ntold again\n"


def test_no_more_lines_are_shown_than_the_terminal_has() -> None:
    stream = Tty()
    Display(stream, size=lambda: (80, 4)).show(list("abcdef"))
    assert stream.getvalue() == "a\nb\nc\n"


@given(st.lists(st.tuples(st.integers(0, 50_000), st.sampled_from(["CZ", "DE", "AT"]))))
def test_the_last_minute_holds_what_was_sold_in_it(steps: list[tuple[int, str]]) -> None:
    kept = LastMinute()
    now = 0
    added: list[tuple[int, Sale]] = []
    for number, (pause, country) in enumerate(steps):
        now += pause
        sale = SALE._replace(country=country, amount=1 + number)
        added.append((now, sale))
        kept.add(now, sale)
        kept.forget(now)
        recent = [each for at, each in added if at > now - WINDOW_MS]
        assert kept.orders == len(recent)
        assert kept.amount == sum(each.amount for each in recent)
        assert dict(kept.by_country()) == {
            name: sum(each.amount for each in recent if each.country == name)
            for name in {each.country for each in recent}
        }
        assert kept.newest == sale


def test_only_sales_are_taken_from_the_topic() -> None:
    value = b'{"order_id":"o-1","name":"Ottla Samsa","country":"CZ","amount":1299,"tier":"gold"}'
    assert parse_sale(value) == SALE
    assert parse_sale(b'{"order_id":"o-1","amount":5}') == Sale("o-1", "somebody", "?", 5)
    for other in (None, b"", b"[1]", b"1", b'{"amount":5}', b'{"order_id":"o","amount":"x"}'):
        assert parse_sale(other) is None
