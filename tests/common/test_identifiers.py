"""UUIDs in Kafka's text form."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.common.chance import Chance
from ottla.common.identifiers import METADATA_TOPIC_ID, random_uuid, uuid_from_text, uuid_text


@given(st.binary(min_size=16, max_size=16))
def test_text_and_bytes_are_the_same_uuid(value: bytes) -> None:
    assert len(uuid_text(value)) == 22
    assert uuid_from_text(uuid_text(value)) == value


def test_the_metadata_topic_has_the_id_that_kafka_gives_it() -> None:
    assert uuid_text(METADATA_TOPIC_ID) == "AAAAAAAAAAAAAAAAAAAAAQ"


@pytest.mark.parametrize("text", ["", "abc", "!" * 22, "A" * 23, "A" * 21])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a UUID"):
        uuid_from_text(text)


def test_random_uuids_are_version_4_and_never_look_like_an_option() -> None:
    chance = Chance(7)
    for _ in range(2000):
        value = random_uuid(chance)
        assert value[6] >> 4 == 4
        assert not uuid_text(value).startswith("-")


def test_the_same_seed_draws_the_same_lots() -> None:
    assert random_uuid(Chance(3)) == random_uuid(Chance(3))
    assert random_uuid(Chance(3)) != random_uuid(Chance(4))
