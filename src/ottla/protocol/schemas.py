"""What the schema says of a message, read when somebody asks: generated code does not need it."""

from functools import cache
from importlib import import_module, resources

from ottla.protocol.generated.index import MODULES
from ottla.protocol.message import Message, Struct
from ottla.protocol.schema_reader import MessageSchema, read_schema


@cache
def _schemas(module: str) -> dict[str, MessageSchema]:
    text = resources.files("ottla.protocol").joinpath(f"schema/{module}.kafka").read_text("utf-8")
    return {message.name: message for message in read_schema(text).messages}


def schema_of(name: str) -> MessageSchema:
    """KeyError when there is no message of that name."""
    return _schemas(MODULES[name])[name]


def message_class(name: str) -> type[Message]:
    """The generated class; KeyError when there is no message of that name."""
    found = struct_class(name, name)
    assert issubclass(found, Message)
    return found


@cache
def struct_class(message: str, name: str) -> type[Struct]:
    """A struct of a message: prefixed where another message of the file has one of that name."""
    module = import_module(f"ottla.protocol.generated.{MODULES[message]}")
    found: type[Struct] = getattr(module, message + name, None) or getattr(module, name)
    return found
