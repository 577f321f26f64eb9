"""A SCRAM credential as a person writes it: ``SCRAM-SHA-256=[name=alice,password=secret]``.

As kafka-storage reads it: ``iterations`` and ``salt`` may be given; ``saltedpassword`` instead of a
password, and then with its salt. Values may stand in double quotes. Errors show no value.
"""

import base64
import binascii
import re
from typing import Final, NamedTuple

from ottla.common.chance import Chance
from ottla.common.errors import InvalidConfig
from ottla.security.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    MECHANISMS,
    SALT_BYTES,
    ScramMechanism,
)

_WHOLE: Final = re.compile(r"\s*(?P<mechanism>[^=\s]+)\s*=\s*\[(?P<fields>.*)\]\s*", re.DOTALL)
_FIELD: Final = re.compile(r'\s*(?P<key>[a-z]+)=(?:"(?P<quoted>[^"]*)"|(?P<bare>[^,"]*))\s*(?:,|$)')
_KEYS: Final = frozenset({"name", "password", "salt", "iterations", "saltedpassword"})


class ScramEntry(NamedTuple):
    mechanism: ScramMechanism
    name: str
    salted_password: bytes
    salt: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramEntry({self.mechanism.mechanism_name}, {self.name}, [hidden])"


def parse_scram(text: str, chance: Chance) -> ScramEntry:
    whole = _WHOLE.fullmatch(text)
    if whole is None:
        raise InvalidConfig("a SCRAM credential is written MECHANISM=[name=NAME,password=PASSWORD]")
    mechanism = MECHANISMS.get(whole["mechanism"])
    if mechanism is None:
        raise InvalidConfig(
            f"The add-scram mechanism {whole['mechanism']} is not supported; "
            f"{' and '.join(MECHANISMS)} are"
        )
    fields = _fields(whole["fields"])
    name = fields.get("name")
    if not name:
        raise InvalidConfig("You must supply 'name' to add-scram")
    if ("password" in fields) == ("saltedpassword" in fields):
        raise InvalidConfig(
            "You must supply one of 'password' or 'saltedpassword' to add-scram, and only one"
        )
    iterations = _iterations(fields.get("iterations", str(ITERATIONS_MIN)), mechanism)
    salt = _base64(fields["salt"], "salt") if "salt" in fields else None
    if "saltedpassword" in fields:
        if salt is None:
            raise InvalidConfig("You must supply 'salt' with 'saltedpassword' to add-scram")
        salted = _base64(fields["saltedpassword"], "saltedpassword")
    else:
        if not fields["password"]:
            raise InvalidConfig("The 'password' of add-scram must not be empty")
        salt = chance.bytes(SALT_BYTES) if salt is None else salt
        salted = mechanism.salted_password(fields["password"].encode(), salt, iterations)
    return ScramEntry(mechanism, name, salted, salt, iterations)


def _fields(text: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    place = 0
    while place < len(text):
        found = _FIELD.match(text, place)
        if found is None or found["key"] not in _KEYS:
            raise InvalidConfig(
                f"add-scram takes {', '.join(sorted(_KEYS))}, as key=value with commas between"
            )
        if found["key"] in fields:
            raise InvalidConfig(f"add-scram has '{found['key']}' twice")
        quoted = found["quoted"]
        fields[found["key"]] = found["bare"].strip() if quoted is None else quoted
        place = found.end()
    return fields


def _iterations(text: str, mechanism: ScramMechanism) -> int:
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0
    if not ITERATIONS_MIN <= number <= ITERATIONS_MAX:
        raise InvalidConfig(
            f"The 'iterations' value must be >= {ITERATIONS_MIN} and <= {ITERATIONS_MAX} for "
            f"add-scram using {mechanism.mechanism_name}"
        )
    return number


def _base64(text: str, key: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidConfig(f"The '{key}' of add-scram is not in base64") from None
