"""Rows per second of each format, decoded and encoded, on one core."""

import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from google.protobuf import descriptor_pb2 as pb

from ottla.spark.formats.arrow_types import parse_columns
from ottla.spark.formats.avro_types import schema_of
from ottla.spark.formats.spec import FormatSpec
from ottla.spark.formats.values import ValuesSpec, decode_values, decoded_type, encode_column

ROWS = 50_000
DDL = "id bigint, name string, price double, quantity int, country string"


def descriptors() -> bytes:
    file = pb.FileDescriptorProto(name="a.proto", package="a", syntax="proto3")
    message = file.message_type.add(name="Row")
    kinds = (pb.FieldDescriptorProto.TYPE_INT64, 9, 1, 5, 9)
    for number, (column, kind) in enumerate(zip(DDL.split(", "), kinds, strict=True), 1):
        message.field.add(name=column.split()[0], number=number, type=kind, label=1)
    return bytes(pb.FileDescriptorSet(file=[file]).SerializeToString())


def rate(work: Callable[[], Any]) -> float:
    """The best of three."""
    best = 0.0
    for _ in range(3):
        start = time.process_time()
        work()
        best = max(best, ROWS / (time.process_time() - start))
    return best


def main() -> None:
    rows = [
        {"id": i, "name": f"name {i}", "price": i * 1.5, "quantity": i % 7, "country": "AT"}
        for i in range(ROWS)
    ]
    for spec in (
        FormatSpec("json", DDL),
        FormatSpec("json", DDL + ", more map<string, string>"),
        FormatSpec("avro", schema_of(parse_columns(DDL))),
        FormatSpec("protobuf", None, descriptors(), "a.Row"),
    ):
        column = pa.array(rows, decoded_type(spec))
        encoded = pa.record_batch({"value": encode_column(column, spec).array})
        values = ValuesSpec(value=spec)
        decoding = rate(lambda: decode_values(encoded, values))  # noqa: B023
        encoding = rate(lambda: encode_column(column, spec))  # noqa: B023
        name = spec.format + (" with a map" if "map<" in (spec.schema or "") else "")
        print(f"{name:16} decoded {decoding:>10,.0f} rows/s, encoded {encoding:>10,.0f} rows/s")


if __name__ == "__main__":
    main()
