"""The options of keys and values in a format, of where their schemas are, and of dead letters.

Read on the driver only: files are read and registries asked there, so that every task has the same
schema. Names begin with ``key`` or ``value``; ``messageName`` alone is the value's.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow as pa

from ottla.spark.errors import BadOption
from ottla.spark.formats.schemas import FRAMED, for_reading, for_writing
from ottla.spark.formats.spec import FORMATS, RAW, FormatSpec
from ottla.spark.formats.values import ValuesSpec
from ottla.spark.registry import RegistrySettings

SIDES: Final = ("key", "value")
_OF_SIDE: Final = ("Format", "Schema", "SchemaFile", "Subject", "MessageName")
_OTHERS: Final = (
    "messageName",
    "schemaRegistry",
    "schemaRegistryUser",
    "schemaRegistryPassword",
    "schemaRegistryTimeoutMs",
    "deadLetterTopic",
    "deadLetterMax",
)
_MADE: Final = ("json", "avro")
"""Of which a schema can be made from the rows that are written."""
_ROWS: Final = {False: "dead letters", True: "its rows"}
_SCHEMA_BYTES_MAX: Final = 8 << 20


def format_option_names() -> tuple[str, ...]:
    """All that are known here, so that what is unknown can be refused."""
    return (*(side + name for side in SIDES for name in _OF_SIDE), *_OTHERS)


@dataclass(frozen=True)
class FormatOptions:
    """What was asked for; :meth:`reading` and :meth:`writing` find the schemas."""

    key: FormatSpec = RAW
    value: FormatSpec = RAW
    dead_letter_topic: str | None = None
    dead_letter_max: int | None = None
    """Of one task; where there are more, something else is wrong, and the query fails."""

    @staticmethod
    def parse(options: Mapping[str, str], *, writing: bool = False) -> "FormatOptions":
        """Of all options of a source or sink, by names in any case of letters."""
        given = {name.lower(): text for name, text in options.items()}
        named = given.get("topic" if writing else "subscribe") or ""
        topics = [part.strip() for part in named.split(",") if part.strip()]
        settings = _registry_settings(given)
        made = FormatOptions(
            key=_spec("key", given, settings, topics, writing=writing),
            value=_spec("value", given, settings, topics, writing=writing),
            dead_letter_topic=given.get("deadlettertopic", "").strip() or None,
            dead_letter_max=_number(given, "deadLetterMax"),
        )
        raw = made.key.format == made.value.format == "raw"
        if raw and (made.dead_letter_topic or made.dead_letter_max is not None):
            raise BadOption("deadLetterTopic: without valueFormat or keyFormat no record is bad")
        pattern = given.get("subscribepattern")
        into = made.dead_letter_topic
        if into in topics or (into and pattern and _matches(pattern, into)):
            would = "write its dead letters among" if writing else "read its own"
            raise BadOption(f"deadLetterTopic: the query would {would} {_ROWS[writing]}")
        return made

    @property
    def values(self) -> ValuesSpec:
        return ValuesSpec(self.key, self.value)

    def reading(self) -> "FormatOptions":
        """With the schemas that columns are made from: as given, or the subject's latest."""
        return replace(self, key=for_reading(self.key), value=for_reading(self.value))

    def writing(self, key: pa.DataType | None, value: pa.DataType) -> "FormatOptions":
        """With the schema to write with: as given, the subject's latest, or made from the rows."""
        of_key = self.key if key is None else for_writing(self.key, key)
        return replace(self, key=of_key, value=for_writing(self.value, value))


NO_FORMATS: Final = FormatOptions()


def _spec(
    side: str,
    given: Mapping[str, str],
    settings: RegistrySettings | None,
    topics: Sequence[str],
    *,
    writing: bool,
) -> FormatSpec:
    name = given.get(f"{side}format", "raw").strip().lower()
    if name not in FORMATS:
        raise BadOption(f"{side}Format: {name!r} is none; known: {', '.join(FORMATS)}")
    message = given.get(f"{side}messagename")
    if side == "value":
        message = message or given.get("messagename")
    text, file = given.get(f"{side}schema"), given.get(f"{side}schemafile")
    if text is not None and file is not None:
        raise BadOption(f"{side}Schema and {side}SchemaFile exclude each other")
    if name not in FRAMED:
        if text or file or message:
            raise BadOption(f"{side}Format={name} has no schema")
        return FormatSpec(name)
    descriptors = None
    if file is not None:
        content = _read(file, f"{side}SchemaFile")
        text, descriptors = (None, content) if name == "protobuf" else (_text(content, file), None)
    elif name == "protobuf" and text is not None:
        raise BadOption(
            f"{side}Schema: Protobuf needs a descriptor set, as {side}SchemaFile "
            "(protoc --include_imports --descriptor_set_out), or a registry"
        )
    known = settings is not None or text is not None or descriptors is not None
    if not known and not (writing and name in _MADE):
        raise BadOption(
            f"{side}Format={name} needs {side}Schema, {side}SchemaFile or schemaRegistry"
        )
    if descriptors is not None and message is None:
        raise BadOption("messageName: which message of the descriptor set is it?")
    subject = given.get(f"{side}subject")
    if subject is None and len(topics) == 1:
        subject = f"{topics[0]}-{side}"
    return FormatSpec(name, text, descriptors, message, settings, subject)


def _registry_settings(given: Mapping[str, str]) -> RegistrySettings | None:
    text = given.get("schemaregistry")
    if text is None:
        for name in ("User", "Password", "TimeoutMs"):
            if f"schemaregistry{name.lower()}" in given:
                raise BadOption(f"schemaRegistry{name} without schemaRegistry")
        return None
    urls = tuple(part.strip() for part in text.split(",") if part.strip())
    make = partial(
        RegistrySettings,
        urls,
        given.get("schemaregistryuser"),
        given.get("schemaregistrypassword"),
    )
    timeout = _number(given, "schemaRegistryTimeoutMs")
    try:
        return make() if timeout is None else make(timeout_s=timeout / 1_000)
    except ValueError as error:
        raise BadOption(str(error)) from error


def _matches(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False  # said where the pattern is read


def _number(given: Mapping[str, str], name: str) -> int | None:
    text = given.get(name.lower())
    if text is None:
        return None
    if not text.strip().isdecimal() or not 0 < int(text) < 1 << 53:
        raise BadOption(f"{name}: expected a number above 0, got {text!r}")
    return int(text)


def _read(name: str, option: str) -> bytes:
    try:
        with Path(name).open("rb") as file:
            content = file.read(_SCHEMA_BYTES_MAX + 1)
    except OSError as error:
        raise BadOption(f"{option}: {name}: {error.strerror}") from error
    if len(content) > _SCHEMA_BYTES_MAX:
        raise BadOption(f"{option}: {name} is larger than {_SCHEMA_BYTES_MAX} bytes")
    return content


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise BadOption(f"{name}: no text in UTF-8") from error
