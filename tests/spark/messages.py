"""A Protobuf message of every kind of field, as protoc would describe it."""

from typing import Any

from google.protobuf import descriptor_pb2 as pb
from google.protobuf import message_factory

from ottla.spark.formats.protobuf_types import pool_of

F = pb.FieldDescriptorProto
SCALARS = {
    "double": F.TYPE_DOUBLE,
    "float": F.TYPE_FLOAT,
    "int64": F.TYPE_INT64,
    "uint64": F.TYPE_UINT64,
    "int32": F.TYPE_INT32,
    "uint32": F.TYPE_UINT32,
    "bool": F.TYPE_BOOL,
    "string": F.TYPE_STRING,
    "bytes": F.TYPE_BYTES,
}


def add(message: Any, name: str, kind: int, of: str = "", *, repeated: bool = False) -> Any:
    field = message.field.add(name=name, number=len(message.field) + 1, type=kind)
    field.label = F.LABEL_REPEATED if repeated else F.LABEL_OPTIONAL
    if of:
        field.type_name = of
    return field


def shop_file() -> Any:
    """``shop.Other``, and ``shop.Order`` with ``shop.Order.Line`` in it."""
    file = pb.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="RED", number=0)
    colour.value.add(name="BLUE", number=1)
    add(file.message_type.add(name="Other"), "x", F.TYPE_INT32)
    order = file.message_type.add(name="Order")
    line = order.nested_type.add(name="Line")
    add(line, "sku", F.TYPE_STRING)
    add(line, "count", F.TYPE_INT32)
    entry = order.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    add(entry, "key", F.TYPE_STRING)
    add(entry, "value", F.TYPE_MESSAGE, ".shop.Order.Line")
    for name, kind in SCALARS.items():
        add(order, f"a_{name}", kind)
    add(order, "colour", F.TYPE_ENUM, ".shop.Colour")
    add(order, "line", F.TYPE_MESSAGE, ".shop.Order.Line")
    add(order, "lines", F.TYPE_MESSAGE, ".shop.Order.Line", repeated=True)
    add(order, "numbers", F.TYPE_INT64, repeated=True)
    add(order, "tags", F.TYPE_MESSAGE, ".shop.Order.TagsEntry", repeated=True)
    add(order, "at", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    add(order, "wrapped", F.TYPE_MESSAGE, ".google.protobuf.UInt64Value")
    maybe = add(order, "maybe", F.TYPE_STRING)
    order.oneof_decl.add(name="_maybe")
    maybe.oneof_index, maybe.proto3_optional = 0, True
    entry = order.nested_type.add(name="TimesEntry")
    entry.options.map_entry = True
    add(entry, "key", F.TYPE_STRING)
    add(entry, "value", F.TYPE_MESSAGE, ".google.protobuf.Timestamp")
    add(order, "times", F.TYPE_MESSAGE, ".shop.Order.TimesEntry", repeated=True)
    add(order, "stamps", F.TYPE_MESSAGE, ".google.protobuf.Timestamp", repeated=True)
    return file


def descriptors(*files: Any) -> bytes:
    return bytes(pb.FileDescriptorSet(file=files or [shop_file()]).SerializeToString())


def message_class(name: str = "shop.Order") -> Any:
    message = pool_of(descriptors()).FindMessageTypeByName(name)
    return message_factory.GetMessageClass(message)
