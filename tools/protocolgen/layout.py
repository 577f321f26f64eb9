"""How the fields of a struct lie on the wire in each version.

Fields of fixed size that follow each other are one run, read and written by one struct call. A
shape is what a run or field looks like in one version; neighbouring versions of equal shape make
one branch of the generated code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from tools.protocolgen.source import Source

from ottla.protocol.schema_reader import FIXED_SIZES, Field, StructSchema, Versions

S = TypeVar("S")

CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
}


@dataclass(slots=True)
class Run:
    """Neighbouring fields of fixed size."""

    fields: list[Field]

    def present(self, version: int) -> tuple[str, ...]:
        return tuple(item.name for item in self.fields if version in item.versions)


@dataclass(slots=True)
class Shape:
    """A field of variable size in one version."""

    compact: bool
    nullable: bool

    @property
    def prefix(self) -> str:
        return ("compact_" if self.compact else "") + ("nullable_" if self.nullable else "")


@dataclass(slots=True)
class Layout:
    """A struct as the generator sees it: untagged steps in order, tagged fields apart."""

    struct: StructSchema
    flexible: Versions
    class_names: dict[str, str]
    steps: list[Run | Field]
    tagged: list[Field]

    @property
    def class_name(self) -> str:
        return self.class_names[self.struct.name]

    def differs_in_count_only(self, item: Field) -> bool:
        """Whether the items of an array are the same in all versions, however they are counted."""
        return item.array and item.type != "string" and item.versions == self.struct.versions

    def shape(self, item: Field, version: int) -> Shape | None:
        if version not in item.versions:
            return None
        return Shape(version in self.flexible and not item.inflexible, item.null_in(version))


def lay_out(struct: StructSchema, flexible: Versions, class_names: dict[str, str]) -> Layout:
    steps: list[Run | Field] = []
    for item in struct.fields:
        if item.tag is not None:
            continue
        if item.array or item.type not in FIXED_SIZES:
            steps.append(item)
        elif steps and isinstance(steps[-1], Run):
            steps[-1].fields.append(item)
        else:
            steps.append(Run([item]))
    tagged = sorted((item for item in struct.fields if item.tag is not None), key=_tag)
    return Layout(struct, flexible.within(struct.versions), class_names, steps, tagged)


def _tag(item: Field) -> int:
    assert item.tag is not None
    return item.tag


def branches(
    source: Source,
    versions: Versions,
    shape: Callable[[int], S],
    emit: Callable[[S, Versions], None],
) -> None:
    """``if version >= ...`` for each run of versions that has the same shape, newest first."""
    found: list[tuple[Versions, S]] = []
    for version in range(versions.high, versions.low - 1, -1):
        now = shape(version)
        if found and found[-1][1] == now:
            found[-1] = (Versions(version, found[-1][0].high), now)
        else:
            found.append((Versions(version, version), now))
    if len(found) == 1:
        emit(found[0][1], found[0][0])
        return
    parts = []
    for reach, now in found:
        with source.aside() as lines:
            emit(now, reach)
        parts.append((reach, lines))
    while parts and not parts[-1][1]:
        parts.pop()
    whole = len(parts) == len(found)
    for number, (reach, lines) in enumerate(parts):
        if whole and number == len(parts) - 1:
            source.line("else:")
        else:
            source.line(f"{'elif' if number else 'if'} version >= {reach.low}:")
        with source.block():
            source.lines(lines or ["pass"])


def outside(inner: Versions, outer: Versions) -> str:
    """The condition that a version of ``outer`` is not in ``inner``; "" when none can be."""
    parts = []
    if inner.empty:
        return "True"
    if inner.low > outer.low:
        parts.append(f"version < {inner.low}")
    if inner.high < outer.high:
        parts.append(f"version > {inner.high}")
    return " or ".join(parts)


def inside(inner: Versions, outer: Versions) -> str:
    """The condition that a version of ``outer`` is in ``inner``; "" when all are."""
    parts = []
    if inner.low > outer.low:
        parts.append(f"version >= {inner.low}")
    if inner.high < outer.high:
        parts.append(f"version <= {inner.high}")
    return " and ".join(parts)


def size_min(item: Field, flexible: Versions, reach: Versions) -> int:
    """The fewest bytes that an item of the array can take in these versions, but at least one."""
    return max(
        1, min(_item_size(item, flexible, version) for version in range(reach.low, reach.high + 1))
    )


def _item_size(item: Field, flexible: Versions, version: int) -> int:
    if item.struct is not None:
        return _struct_size(item.struct, flexible, version)
    if item.type in FIXED_SIZES:
        return FIXED_SIZES[item.type]
    return 1 if version in flexible else 2


def _struct_size(struct: StructSchema, flexible: Versions, version: int) -> int:
    size = 1 if version in flexible else 0
    for item in struct.fields:
        if version in item.versions and item.tag is None:
            size += _field_size(item, flexible, version)
    return size


def _field_size(item: Field, flexible: Versions, version: int) -> int:
    compact = version in flexible and not item.inflexible
    if item.array:
        return 1 if compact else 4
    if item.struct is not None:
        return 1 if item.null_in(version) else _struct_size(item.struct, flexible, version)
    if item.type in FIXED_SIZES:
        return FIXED_SIZES[item.type]
    if compact:
        return 1
    return 2 if item.type == "string" else 4
