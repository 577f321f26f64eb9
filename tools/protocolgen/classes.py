"""The classes of one schema file: fields, defaults, and the methods of the codec."""

from collections import Counter

from tools.protocolgen.decoding import write_decoders
from tools.protocolgen.defaults import default_value, python_type
from tools.protocolgen.encoding import write_encoders
from tools.protocolgen.layout import Layout, lay_out
from tools.protocolgen.source import Source

from ottla.protocol.schema_reader import Field, MessageSchema, Schema, StructSchema

RESERVED = {
    "ClassVar",
    "CodedResponse",
    "ExplainedResponse",
    "Message",
    "ProtocolViolation",
    "Request",
    "Response",
    "Struct",
    "UnknownTags",
    "Writer",
}


def module_source(schema: Schema) -> str:
    source = Source()
    names = _class_names(schema)
    bases = _bases(schema)
    # A request names its response, which therefore stands before it.
    for message in sorted(schema.messages, key=lambda each: bases[each.name].startswith("Request")):
        for struct in [message.root, *message.structs]:
            base = bases[message.name] if struct is message.root else "Struct"
            _write_class(source, message, struct, names[message.name], base)
    head = Source()
    head.line('"""' + _title(schema) + '"""')
    head.lines(["", "from __future__ import annotations", ""])
    if source.formats:
        head.line("from struct import Struct as _Format")
    head.lines(["from typing import ClassVar", ""])
    if "ProtocolViolation" in source.imports:
        head.line("from ottla.common.errors import ProtocolViolation")
    used_bases = {base.partition("[")[0] for base in bases.values()}
    if any(message.structs for message in schema.messages):
        used_bases.add("Struct")
    head.line(f"from ottla.protocol.message import {', '.join(sorted(used_bases))}")
    head.line("from ottla.protocol.primitives import (")
    used = source.imports - {"ProtocolViolation"} | {"UnknownTags", "Writer"}
    head.lines([f"    {name}," for name in sorted(used)])
    head.line(")")
    if source.formats:
        head.line()
        formats = sorted(source.formats.items())
        head.lines([f"{name} = {text.replace('Struct', '_Format')}" for name, text in formats])
    return "\n".join(head.text + source.text) + "\n"


def _title(schema: Schema) -> str:
    if schema.api is None:
        return ", ".join(message.name for message in schema.messages[:3]) + (
            " and others." if len(schema.messages) > 3 else "."
        )
    return f"{schema.api.name} (key {schema.api.key}): request and response."


def _bases(schema: Schema) -> dict[str, str]:
    """What the class of each message is made from."""
    bases = {message.name: "Message" for message in schema.messages}
    if schema.api is not None:
        request, response = f"{schema.api.name}Request", f"{schema.api.name}Response"
        (root,) = [each.root for each in schema.messages if each.name == response]
        bases |= {request: f"Request[{response}]", response: _response_base(root)}
    return bases


def _response_base(root: StructSchema) -> str:
    fields = {item.name for item in root.fields}
    if "error_code" not in fields:
        return "Response"
    return "ExplainedResponse" if "error_message" in fields else "CodedResponse"


def _class_names(schema: Schema) -> dict[str, dict[str, str]]:
    """By message and struct; a name that two messages of a file use is prefixed in both."""
    count = Counter(s.name for m in schema.messages for s in [m.root, *m.structs])
    names: dict[str, dict[str, str]] = {}
    for message in schema.messages:
        own = names[message.name] = {message.name: message.name}
        for struct in message.structs:
            twice = count[struct.name] > 1 or struct.name in RESERVED
            own[struct.name] = message.name + struct.name if twice else struct.name
    return names


def _write_class(
    source: Source, message: MessageSchema, struct: StructSchema, names: dict[str, str], base: str
) -> None:
    layout = lay_out(struct, message.flexible, names)
    is_message = struct is message.root
    source.lines(["", "", f"class {layout.class_name}({base}):"])
    with source.block():
        if is_message:
            flexible = message.flexible
            source.line(f"API_KEY: ClassVar[int] = {message.key}")
            source.line(f"LOWEST_VERSION: ClassVar[int] = {message.versions.low}")
            source.line(f"HIGHEST_VERSION: ClassVar[int] = {message.versions.high}")
            first = message.versions.high + 1 if flexible.empty else flexible.low
            source.line(f"FLEXIBLE_FROM: ClassVar[int] = {first}")
            if base.startswith("Request["):
                response = base.removeprefix("Request[").removesuffix("]")
                source.line(f"RESPONSE: ClassVar[type[{response}]] = {response}")
            source.line()
        slots = [item.name for item in struct.fields] + ["unknown_tagged_fields"]
        source.line("__slots__ = (")
        source.lines([f'    "{name}",' for name in slots])
        source.lines([")", ""])
        _write_init(source, layout)
        uses = _uses(message, struct)
        single, array = is_message or False in uses, True in uses
        write_decoders(source, layout, single=single, array=array)
        write_encoders(source, layout, single=single, array=array)


def _uses(message: MessageSchema, struct: StructSchema) -> set[bool]:
    """Whether the fields that bring this struct are arrays of it."""
    fields = [item for s in [message.root, *message.structs] for item in s.fields]
    return {item.array for item in fields if item.struct is struct}


def _write_init(source: Source, layout: Layout) -> None:
    source.line("def __init__(")
    with source.block():
        source.lines(["self,", "*,"])
        for item in layout.struct.fields:
            parameter = _parameter(item, layout)
            source.line(f"{item.name}: {parameter},")
            if parameter.endswith("ZERO_UUID"):
                source.use("ZERO_UUID")
        source.line("unknown_tagged_fields: UnknownTags | None = None,")
    source.line(") -> None:")
    with source.block():
        for item in layout.struct.fields:
            _write_assignment(source, item, layout)
        source.line("self.unknown_tagged_fields = unknown_tagged_fields")


def _made_fresh(item: Field) -> bool:
    return default_value(item, {}) != "None" and (item.array or item.struct is not None)


def _parameter(item: Field, layout: Layout) -> str:
    kind = python_type(item, layout.class_names)
    if not _made_fresh(item):
        return f"{kind} = {default_value(item, layout.class_names)}"
    if item.nullable.empty:
        return f"{kind} | None = None"
    # None is a value of its own here, so what stands for "not given" is an empty tuple.
    return f"{kind} | tuple[()] = ()"


def _write_assignment(source: Source, item: Field, layout: Layout) -> None:
    name, kind = item.name, python_type(item, layout.class_names)
    if not _made_fresh(item):
        source.line(f"self.{name} = {name}")
        return
    fresh = default_value(item, layout.class_names)
    given = f"{name} is None" if item.nullable.empty else f"isinstance({name}, tuple)"
    source.line(f"self.{name}: {kind} = {fresh} if {given} else {name}")
