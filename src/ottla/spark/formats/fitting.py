"""Whether columns fit a schema that they are to be written with, and columns in its types.

What can be seen from the types is said before the query runs. What only the rows can tell (a number
that is too large, a null where none may be) is said of each row.
"""

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ottla.spark.formats.spec import EncodeError

_Is = Callable[[pa.DataType], bool]


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _bytes(kind: pa.DataType) -> bool:
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


_FITTING: Final[list[tuple[_Is, _Is]]] = [
    (pa.types.is_integer, pa.types.is_integer),
    (pa.types.is_integer, pa.types.is_floating),
    (pa.types.is_integer, pa.types.is_decimal),
    (pa.types.is_floating, pa.types.is_floating),
    (pa.types.is_decimal, pa.types.is_decimal),
    (_text, _text),
    (_bytes, _bytes),
]
"""Which values may become which others, if they stay what they are."""


def check_fits(kind: pa.DataType, wanted: pa.DataType, path: str) -> None:
    """Raise EncodeError where no row of ``kind`` could be written as ``wanted``."""
    if kind == wanted or pa.types.is_null(kind):
        return
    if pa.types.is_struct(kind) and pa.types.is_struct(wanted):
        for each in kind:
            place = wanted.get_field_index(each.name)
            if place < 0:
                has = ", ".join(field.name for field in wanted)
                raise EncodeError(f"{path}: the schema has no field {each.name}, only {has}")
            check_fits(each.type, wanted.field(place).type, f"{path}.{each.name}")
    elif pa.types.is_list(kind) and pa.types.is_list(wanted):
        check_fits(kind.value_type, wanted.value_type, f"{path}[]")
    elif pa.types.is_map(kind) and pa.types.is_map(wanted):
        check_fits(kind.key_type, wanted.key_type, f"{path}.key")
        check_fits(kind.item_type, wanted.item_type, f"{path}.value")
    elif pa.types.is_timestamp(kind) and pa.types.is_timestamp(wanted):
        if (kind.tz is None) != (wanted.tz is None):
            raise _unfit(path, kind, wanted)
    elif not any(of(kind) and to(wanted) for of, to in _FITTING):
        raise _unfit(path, kind, wanted)


def _unfit(path: str, kind: pa.DataType, wanted: pa.DataType) -> EncodeError:
    return EncodeError(f"{path} is {kind}, the schema has {wanted}: cast it in the query")


def conform(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """In the types of the schema, fields by name; what the rows lack is null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind) and pa.types.is_struct(array.type):
        names = [each.name for each in array.type]
        arrays = [
            conform(array.field(names.index(each.name)), each.type)
            if each.name in names
            else pa.nulls(len(array), each.type)
            for each in kind
        ]
        return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=pc.is_null(array))
    if pa.types.is_list(kind) and pa.types.is_list(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0)
        ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
        elements = conform(array.flatten(), kind.value_type)
        return pa.ListArray.from_arrays(ends, elements, type=kind, mask=pc.is_null(array))
    return array.cast(kind)
