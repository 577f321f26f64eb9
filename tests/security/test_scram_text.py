"""``--add-scram``: what a person may write."""

import base64

import pytest

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.security.scram import ScramMechanism
from ottla.security.scram_text import parse_scram

SALT = base64.b64encode(b"0123456789").decode()


def test_a_name_and_a_password() -> None:
    entry = parse_scram("SCRAM-SHA-256=[name=alice,password=secret]", Chance(1))
    assert (entry.mechanism, entry.name, entry.iterations) == (
        ScramMechanism.SCRAM_SHA_256,
        "alice",
        4096,
    )
    assert len(entry.salt) == 24
    salted = entry.mechanism.salted_password(b"secret", entry.salt, 4096)
    assert entry.salted_password == salted
    assert "secret" not in repr(entry)


def test_all_that_can_be_said() -> None:
    text = f'SCRAM-SHA-512=[salt="{SALT}",iterations=8192,name="a b",password="x,y=]"]'
    entry = parse_scram(text, Chance(1))
    assert (entry.mechanism, entry.name) == (ScramMechanism.SCRAM_SHA_512, "a b")
    assert (entry.salt, entry.iterations) == (b"0123456789", 8192)
    assert entry.salted_password == entry.mechanism.salted_password(b"x,y=]", entry.salt, 8192)


def test_a_salted_password_with_its_salt() -> None:
    text = f"SCRAM-SHA-256=[name=a,saltedpassword={SALT},salt={SALT}]"
    assert parse_scram(text, Chance(1)).salted_password == b"0123456789"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is written"),
        ("alice:secret", "is written"),
        ("SCRAM-SHA-256=name=a,password=secret", "is written"),
        ("SCRAM-SHA-1=[name=a,password=secret]", "not supported"),
        ("SCRAM-SHA-256=[password=secret]", "'name'"),
        ("SCRAM-SHA-256=[name=a]", "only one"),
        (f"SCRAM-SHA-256=[name=a,password=secret,saltedpassword={SALT}]", "only one"),
        (f"SCRAM-SHA-256=[name=a,saltedpassword={SALT}]", "'salt'"),
        ("SCRAM-SHA-256=[name=a,password=]", "empty"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=4095]", "4096"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=16385]", "16384"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=many]", "4096"),
        ("SCRAM-SHA-256=[name=a,password=secret,salt=!]", "base64"),
        ("SCRAM-SHA-256=[name=a,password=secret,colour=red]", "takes"),
        ("SCRAM-SHA-256=[name=a,name=b,password=secret]", "twice"),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(text: str, words: str) -> None:
    with pytest.raises(InvalidConfig) as refused:
        parse_scram(text, Chance(1))
    assert words in refused.value.message
    assert "secret" not in refused.value.message
