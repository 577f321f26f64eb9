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
from ottla.spark.formats.spec import FORMATS, RAW, FormatError, FormatSpec
from ottla.spark.formats.values import ValuesSpec
from ottla.spark.registry import RegistrySettings, SchemaNotFound, registry

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
_FRAMED: Final = ("json", "avro", "protobuf")
_SCHEMA_BYTES_MAX: Final = 8 << 20


def format_option_names() -> tuple[str, ...]:
    """All that are known here, for whoever refuses what is unknown."""
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
    def parse(options: Mapping[str, str]) -> "FormatOptions":
        """Of all options of a source or sink, by names in any case of letters."""
        given = {name.lower(): text for name, text in options.items()}
        named = given.get("subscribe") or given.get("topic") or ""
        topics = [part.strip() for part in named.split(",") if part.strip()]
        settings = _registry_settings(given)
        made = FormatOptions(
            key=_spec("key", given, settings, topics),
            value=_spec("value", given, settings, topics),
            dead_letter_topic=given.get("deadlettertopic", "").strip() or None,
            dead_letter_max=_number(given, "deadLetterMax"),
        )
        raw = made.key.format == made.value.format == "raw"
        if raw and (made.dead_letter_topic or made.dead_letter_max is not None):
            raise BadOption("deadLetterTopic: without valueFormat or keyFormat no record is bad")
        pattern = given.get("subscribepattern")
        into = made.dead_letter_topic
        if into in topics or (into and pattern and _matches(pattern, into)):
            raise BadOption("deadLetterTopic: the query would read its own dead letters")
        return made

    @property
    def values(self) -> ValuesSpec:
        return ValuesSpec(self.key, self.value)

    def reading(self) -> "FormatOptions":
        """With the schemas that columns are made from: as given, or the subject's latest."""
        return replace(self, key=_for_reading(self.key), value=_for_reading(self.value))

    def writing(self, key: pa.DataType | None, value: pa.DataType) -> ValuesSpec:
        """With the schema to write with: as given, the subject's latest, or made from the rows."""
        of_key = self.key if key is None else _for_writing(self.key, key)
        return ValuesSpec(of_key, _for_writing(self.value, value))


NO_FORMATS: Final = FormatOptions()


def _spec(
    side: str, given: Mapping[str, str], settings: RegistrySettings | None, topics: Sequence[str]
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
    if name not in _FRAMED:
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
    if settings is None and text is None and descriptors is None:
        raise BadOption(
            f"{side}Format={name} needs {side}Schema, {side}SchemaFile or schemaRegistry"
        )
    if descriptors is not None and message is None:
        raise BadOption("messageName: which message of the descriptor set is it?")
    subject = given.get(f"{side}subject")
    if subject is None and len(topics) == 1:
        subject = f"{topics[0]}-{side}"
    return FormatSpec(name, text, descriptors, message, settings, subject)


def _for_reading(spec: FormatSpec) -> FormatSpec:
    if spec.format not in _FRAMED or spec.schema is not None or spec.descriptors is not None:
        return spec
    return _latest(spec)


def _for_writing(spec: FormatSpec, kind: pa.DataType) -> FormatSpec:
    if spec.format not in _FRAMED:
        return spec
    if spec.schema is None and spec.registry is not None:
        try:
            found = _latest(spec)
        except SchemaNotFound:
            found = spec
        if spec.format == "protobuf" and spec.descriptors is not None:
            return replace(spec, schema_id=found.schema_id)
        if found.schema_id is not None:
            return found
    if spec.format == "protobuf":
        return spec
    if spec.schema is None:
        spec = replace(spec, schema=_made_from(spec.format, kind))
    if spec.registry is None:
        return spec
    assert spec.schema is not None, "given, or made from the rows"
    schema_id = registry(spec.registry).register(
        _subject(spec), spec.format.upper(), _registrable(spec)
    )
    return replace(spec, schema_id=schema_id)


def _latest(spec: FormatSpec) -> FormatSpec:
    assert spec.registry is not None, "parse asks for it where there is no schema"
    found = registry(spec.registry).latest(_subject(spec))
    if found.kind != spec.format.upper():
        raise FormatError(f"subject {spec.subject} holds {found.kind}, not {spec.format.upper()}")
    if spec.format == "protobuf":
        from ottla.spark.formats.protobuf_types import descriptors_of, message_at, pool_of

        descriptors, file = descriptors_of(found)
        name = spec.message_name or message_at(pool_of(descriptors), file, (0,))
        return replace(spec, descriptors=descriptors, message_name=name, schema_id=found.id)
    if found.references and spec.format == "avro":
        from ottla.spark.formats.avro_types import AvroSchema

        text = AvroSchema(each.text for each in found.in_order()).whole()
    else:
        text = found.text
    return replace(spec, schema=text, schema_id=found.id)


def _made_from(name: str, kind: pa.DataType) -> str:
    if name == "avro":
        from ottla.spark.formats import avro_types

        return avro_types.schema_of(kind)
    from ottla.spark.formats import json_schema

    return json_schema.schema_of(kind)


def _registrable(spec: FormatSpec) -> str:
    """Registries know JSON Schema, not DDL."""
    assert spec.schema is not None, "there is one to be registered"
    if spec.format == "json" and not spec.schema.lstrip().startswith("{"):
        from ottla.spark.formats.json_schema import columns_of, schema_of

        return schema_of(columns_of(spec.schema))
    return spec.schema


def _subject(spec: FormatSpec) -> str:
    if spec.subject is None:
        raise BadOption("valueSubject (keySubject): which subject, with more than one topic?")
    return spec.subject


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
        return False  # said by whoever reads the pattern


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
