"""Where the schema of a format comes from: as given, from the registry, or from the rows.

Asked on the driver only. For writing, a schema that is given is registered under its subject unless
it is there; without one the subject's latest is taken, and where there is none, one is made from
the rows (every field nullable) and registered.
"""

import base64
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from ottla.spark.errors import BadOption
from ottla.spark.formats.fitting import check_fits
from ottla.spark.formats.spec import FormatError, FormatSpec
from ottla.spark.registry import Reference, RegisteredSchema, Registry, SchemaNotFound, registry

FRAMED: Final = ("json", "avro", "protobuf")
"""Formats with schemas, whose values a registry's frame may precede."""
_WELL_KNOWN: Final = "google/protobuf/"
"""Files that every registry knows: nobody registers them."""


def for_reading(spec: FormatSpec) -> FormatSpec:
    if spec.format not in FRAMED or spec.schema is not None or spec.descriptors is not None:
        return spec
    return _latest(spec)


def for_writing(spec: FormatSpec, kind: pa.DataType) -> FormatSpec:
    """``kind`` is what the rows are."""
    if spec.format not in FRAMED:
        return spec
    if spec.format == "protobuf":
        return _protobuf(spec)
    if spec.schema is None:
        spec = _latest_or_made(spec, kind)
    if spec.registry is None or spec.schema_id is not None:
        return spec
    schema_id = registry(spec.registry).register(
        _subject(spec), spec.format.upper(), _registrable(spec)
    )
    return replace(spec, schema_id=schema_id)


def _latest_or_made(spec: FormatSpec, kind: pa.DataType) -> FormatSpec:
    found = spec
    if spec.registry is not None:
        try:
            found = _latest(spec)
        except SchemaNotFound:
            found = spec
    if spec.format == "avro":
        from ottla.spark.formats import avro_types

        return (
            found if found.schema is not None else replace(spec, schema=avro_types.schema_of(kind))
        )
    return _json(found, kind)


def _json(found: FormatSpec, kind: pa.DataType) -> FormatSpec:
    """JSON Schema knows fewer types than rows have: those of the rows say how they are written."""
    from ottla.spark.formats.arrow_types import ddl_of
    from ottla.spark.formats.json_schema import columns_of, schema_of

    if not pa.types.is_struct(kind):
        raise FormatError(f"JSON: a value is an object: a struct of columns, not {kind}")
    if found.schema is not None:
        check_fits(
            columns_of(schema_of(kind)), columns_of(found.schema), f"subject {found.subject}"
        )
    return replace(found, schema=ddl_of(kind))


def _protobuf(spec: FormatSpec) -> FormatSpec:
    if spec.descriptors is None:
        return _latest(spec)
    if spec.registry is None:
        return spec
    from ottla.spark.formats.protobuf_types import files_of, message_of, pool_of

    assert spec.message_name is not None, "parse asks for it"
    own = message_of(pool_of(spec.descriptors), spec.message_name).file.name
    files = files_of(spec.descriptors)
    known = registry(spec.registry)
    references = _references(known, files, own)
    schema_id = known.register(_subject(spec), "PROTOBUF", _serialized(files[own]), references)
    return replace(spec, schema_id=schema_id)


def _references(known: Registry, files: dict[str, Any], name: str) -> tuple[Reference, ...]:
    return tuple(
        known.refer(each, "PROTOBUF", _serialized(files[each]), _references(known, files, each))
        for each in files[name].dependency
        if not each.startswith(_WELL_KNOWN)
    )


def _serialized(file: Any) -> str:
    return base64.b64encode(file.SerializeToString(deterministic=True)).decode()


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
    return replace(spec, schema=_whole(found, spec.format), schema_id=found.id)


def _whole(found: RegisteredSchema, name: str) -> str:
    if not found.references or name != "avro":
        return found.text
    from ottla.spark.formats.avro_types import AvroSchema

    return AvroSchema(each.text for each in found.in_order()).whole()


def _registrable(spec: FormatSpec) -> str:
    """Registries know JSON Schema, neither DDL nor Spark's JSON."""
    assert spec.schema is not None, "given, or made from the rows"
    if spec.format != "json":
        return spec.schema
    from ottla.spark.formats.json_schema import columns_of, is_json_schema, schema_of

    return spec.schema if is_json_schema(spec.schema) else schema_of(columns_of(spec.schema))


def _subject(spec: FormatSpec) -> str:
    if spec.subject is None:
        raise BadOption(
            "valueSubject (keySubject): which subject? One topic alone would tell: TOPIC-value"
        )
    return spec.subject
