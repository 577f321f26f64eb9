"""Nobody waits for what has come already: who is woken when no client's request moves things."""

from tests.replication.led import Led, Registered
from tests.turns import in_turn


def waiting_reader(led: Led, missing: int = 1) -> list[str]:
    told: list[str] = []
    led.queue.add(missing, [led.partition.readers.consumers], 1000, lambda: told.append("reader"))
    return told


def test_an_isr_without_the_laggard_wakes_readers_too() -> None:
    """Same leader, same epoch: nothing but the ISR is new."""
    led = Led()
    led.append(5)
    led.fetch(2, 5)
    told = waiting_reader(led)
    led.lead((1, 2))
    assert (led.high_watermark, told) == (5, ["reader"])


def test_a_member_that_the_controller_refuses_holds_nobody_up() -> None:
    led = Led(isr=(1, 2))
    led.append(5)
    led.fetch(2, 5)
    led.fetch(3, 5)
    led.append(1)
    led.brokers[3] = Registered(103, fenced=True)
    led.fetch(2, 6)
    told = waiting_reader(led)
    assert led.high_watermark == 5
    in_turn(led.partition.isr_refused, led.proposed[0], is_unchanged=True)
    assert (led.high_watermark, told) == (6, ["reader"])


def test_one_that_was_about_to_join_and_is_fenced_holds_nobody_up_for_long() -> None:
    """What the metadata log says of it is no news of the partition."""
    led = Led(isr=(1, 2), replicas=(1, 2, 3, 4))
    led.append(5)
    led.fetch(2, 5)
    led.fetch(4, 5)
    led.fetch(3, 5)
    led.altered(led.proposed[0])
    led.append(1)
    led.fetch(2, 6)
    led.fetch(4, 6)
    committed = led.partition.when_committed(5)
    led.brokers[3] = Registered(103, fenced=True)
    assert not committed.done
    led.partition.maybe_shrink_isr()
    assert committed.done


def test_a_log_that_cannot_be_read_keeps_no_acknowledgement() -> None:
    """How much has come is looked up for readers that want more than a little."""
    led = Led()
    led.append(5)
    led.append(5)
    told = waiting_reader(led, missing=1000)
    committed = led.partition.when_committed(4)
    led.fetch(2, 5)
    led.filesystem.fail = lambda operation, _path: OSError() if operation == "read" else None
    led.partition.leadership.followers[3].log_end_offset = 5
    led.partition.leadership.followers[2].log_end_offset = 5
    led.lead((1, 2, 3))
    assert committed.done
    assert told == ["reader"]
