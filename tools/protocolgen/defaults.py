"""Python's view of a field: its type, its default, and when it differs from the default."""

from ottla.protocol.schema_reader import Field

TYPES = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "uuid": "bytes",
    "string": "str",
    "bytes": "bytes",
    "records": "bytes",
}


def python_type(item: Field, class_names: dict[str, str]) -> str:
    kind = TYPES.get(item.type) or class_names[item.type]
    if item.array:
        kind = f"list[{kind}]"
    return kind if item.nullable.empty else f"{kind} | None"


def default_value(item: Field, class_names: dict[str, str]) -> str:
    """The default as a Python expression; arrays and structs are made anew by it."""
    if item.default == "null":
        return "None"
    if item.array:
        return "[]"
    if item.struct is not None:
        return f"{class_names.get(item.type, item.type)}()"
    if item.type == "records" and not item.nullable.empty:
        return "None"
    if item.type == "bool":
        return "True" if item.default == "true" else "False"
    if item.type == "string":
        return f'"{item.default or ""}"'
    if item.type == "uuid":
        return "ZERO_UUID"
    if item.type in ("bytes", "records"):
        return 'b""'
    if item.type == "float64":
        return item.default or "0.0"
    return str(int(item.default or "0", 0))


def differs(item: Field, value: str) -> str:
    """The condition that ``value`` is not the default of ``item``."""
    default = default_value(item, {})
    if default == "None":
        return f"{value} is not None"
    if item.struct is not None and not item.array:
        parts = [differs(inner, f"{value}.{inner.name}") for inner in item.struct.fields]
        if not item.nullable.empty:
            parts.insert(0, f"{value} is None")
        return " or ".join([*parts, f"{value}.unknown_tagged_fields"])
    if default in ("[]", "False") and item.nullable.empty:
        return value
    if default == "True":
        return f"not {value}"
    return f"{value} != {default}"
