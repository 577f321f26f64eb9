"""When keys are asked for; made-up key ids change that little."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from ottla.security.key_refresh import (
    EARLY_PAUSE_SECONDS,
    KEY_ID_CHARACTERS_MAX,
    KEY_IDS_REMEMBERED,
    SAME_KEY_PAUSE_SECONDS,
    KeyRefresh,
    RefreshSettings,
)

SETTINGS = RefreshSettings(3600.0, 0.1, 10.0)


def test_pauses_grow_with_failures_up_to_a_bound() -> None:
    refresh = KeyRefresh(SETTINGS)
    pauses = []
    for _ in range(200):
        assert refresh.begin()
        pauses.append(refresh.failed())
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.8]
    assert max(pauses) == pauses[-1] == 10.0
    assert refresh.begin()
    assert refresh.succeeded() == 3600.0
    assert refresh.begin()
    assert refresh.failed() == 0.1


def test_one_request_is_under_way_at_a_time() -> None:
    refresh = KeyRefresh(SETTINGS)
    assert refresh.begin()
    assert not refresh.begin()
    refresh.succeeded()
    assert refresh.begin()


def test_the_same_unknown_key_counts_again_after_a_while() -> None:
    refresh = KeyRefresh(SETTINGS)
    assert refresh.is_wanted_early("new", 100.0)
    assert not refresh.is_wanted_early("new", 100.0 + SAME_KEY_PAUSE_SECONDS - 1)
    assert refresh.is_wanted_early("other", 100.0 + EARLY_PAUSE_SECONDS)
    assert refresh.is_wanted_early("new", 100.0 + SAME_KEY_PAUSE_SECONDS)


def test_a_key_id_of_any_length_is_not_remembered() -> None:
    refresh = KeyRefresh(SETTINGS)
    assert not refresh.is_wanted_early("x" * (KEY_ID_CHARACTERS_MAX + 1), 100.0)
    assert refresh.is_wanted_early("x" * KEY_ID_CHARACTERS_MAX, 100.0)


def test_after_a_failure_the_pause_alone_decides() -> None:
    refresh = KeyRefresh(SETTINGS)
    assert refresh.begin()
    refresh.failed()
    assert not refresh.is_wanted_early("new", 100.0)


@given(st.lists(st.tuples(st.text(max_size=3), st.floats(0, 5)), max_size=200))
def test_made_up_key_ids_ask_seldom(asked: list[tuple[str, float]]) -> None:
    refresh = KeyRefresh(SETTINGS)
    now, times = 100.0, []
    for key_id, later in asked:
        now += later
        if refresh.is_wanted_early(key_id, now):
            times.append(now)
        assert len(refresh._unknown) <= KEY_IDS_REMEMBERED
    pauses = [after - before for before, after in itertools.pairwise(times)]
    assert all(pause >= EARLY_PAUSE_SECONDS for pause in pauses)
