"""Whose quota it is: the order in which quotas are asked, and who shares a bucket."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.metadata.client_quotas import QuotaEntity, quota_entity
from ottla.metadata.delta import MetadataDelta
from ottla.metadata.difference import difference
from ottla.metadata.image import MetadataImage
from ottla.metadata.quota_limits import Limit, QuotaLimits
from ottla.protocol.generated.metadata_records import ClientQuotaRecord, EntityData

KEY = "producer_byte_rate"


def entity(**parts: str | None) -> QuotaEntity:
    return quota_entity({kind.replace("_", "-"): name for kind, name in parts.items()})


BOTH, USER, CLIENT = entity(user="u", client_id="c"), entity(user="u"), entity(client_id="c")
ORDER = [
    (BOTH, BOTH),
    (entity(user="u", client_id=None), BOTH),
    (USER, USER),
    (entity(user=None, client_id="c"), BOTH),
    (entity(user=None, client_id=None), BOTH),
    (entity(user=None), USER),
    (CLIENT, CLIENT),
    (entity(client_id=None), CLIENT),
]
"""What is asked, first to last, and who shares a bucket by it."""


def limits_of(quotas: dict[QuotaEntity, dict[str, float]], key: str = KEY) -> QuotaLimits:
    limits = QuotaLimits(key)
    limits.changed(difference(MetadataImage(), MetadataImage(client_quotas=quotas)))
    return limits


@given(st.sets(st.integers(0, len(ORDER) - 1)))
def test_the_first_that_is_set_holds(which: set[int]) -> None:
    limits = limits_of({ORDER[n][0]: {KEY: float(n + 1)} for n in which})
    expected = None if not which else Limit(min(which) + 1, ORDER[min(which)][1])
    assert limits.of_client("u", "c") == expected


def test_each_key_has_an_order_of_its_own() -> None:
    quotas = {BOTH: {"consumer_byte_rate": 5.0}, CLIENT: {KEY: 7.0}}
    assert limits_of(quotas).of_client("u", "c") == Limit(7.0, CLIENT)
    assert limits_of(quotas, "consumer_byte_rate").of_client("u", "c") == Limit(5.0, BOTH)


def test_a_default_is_a_bucket_for_each_that_it_is_for() -> None:
    limits = limits_of({entity(user=None): {KEY: 3.0}})
    assert limits.of_client("u", "c") == limits.of_client("u", "other") == Limit(3.0, USER)
    assert limits.of_client("v", "c") == Limit(3.0, entity(user="v"))


def test_nobody_else_is_limited() -> None:
    limits = limits_of({BOTH: {KEY: 3.0}})
    assert limits.of_client("u", "other") is None
    assert limits.of_client("v", "c") is None
    assert not limits_of({BOTH: {"request_percentage": 3.0}})


def test_quotas_follow_the_metadata_log() -> None:
    limits = QuotaLimits(KEY)
    image = MetadataImage()
    for value, remove, expected in ((5.0, False, 5.0), (6.0, False, 6.0), (0.0, True, None)):
        delta = MetadataDelta(image)
        part = EntityData(entity_type="user", entity_name="u")
        delta.client_quotas.replay(
            ClientQuotaRecord(entity=[part], key=KEY, value=value, remove=remove)
        )
        limits.changed(delta)
        image = MetadataImage(client_quotas=delta.client_quotas.apply())
        found = limits.of_client("u", "c")
        assert (None if found is None else found.bound) == expected
    assert not limits


def test_a_snapshot_takes_away_what_it_does_not_have() -> None:
    before = MetadataImage(client_quotas={USER: {KEY: 5.0}, CLIENT: {KEY: 6.0}})
    limits = QuotaLimits(KEY)
    limits.changed(difference(MetadataImage(), before))
    limits.changed(difference(before, MetadataImage(client_quotas={CLIENT: {KEY: 7.0}})))
    assert limits.of_client("u", "c") == Limit(7.0, CLIENT)


@pytest.mark.parametrize(
    ("said", "comes"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::1", "0:0:0:0:0:0:0:1"),
        ("FE80::1", "fe80::1%eth0"),
    ],
)
def test_an_address_is_the_same_in_any_form(said: str, comes: str) -> None:
    limits = limits_of({((("ip"), said),): {KEY: 2.0}, (("ip", None),): {KEY: 9.0}})
    found = limits.of_ip(comes)
    assert found is not None
    assert found.bound == 2.0
    other = limits.of_ip("10.9.9.9")
    assert other == Limit(9.0, (("ip", "10.9.9.9"),))
