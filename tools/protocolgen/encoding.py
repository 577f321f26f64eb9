"""The writing half: ``encode``, ``encode_array`` and, where a struct has tags, ``_encode_tags``."""

from tools.protocolgen.defaults import differs
from tools.protocolgen.layout import CODES, Layout, Run, Shape, branches, inside, outside
from tools.protocolgen.source import Source

from ottla.protocol.schema_reader import FIXED_SIZES, Field, Versions


def write_encoders(source: Source, layout: Layout, *, single: bool, array: bool) -> None:
    name = layout.class_name
    if single:
        source.lines(["", "def encode(self, out: Writer, version: int) -> None:"])
        with source.block():
            source.line("write = out.parts.append")
            _Encoder(source, layout, "self").write_body()
    if array:
        source.lines(["", "@staticmethod"])
        source.line(f"def encode_array(items: list[{name}], out: Writer, version: int) -> None:")
        with source.block():
            source.line("write = out.parts.append")
            source.line("for o in items:")
            with source.block():
                _Encoder(source, layout, "o").write_body()
    if layout.tagged:
        _Encoder(source, layout, "self").write_tags_method()


class _Encoder:
    def __init__(self, source: Source, layout: Layout, owner: str) -> None:
        self.source = source
        self.layout = layout
        self.owner = owner

    def write_body(self) -> None:
        source, layout = self.source, self.layout
        self._write_checks()
        tags_written = False
        for step in layout.steps:
            if isinstance(step, Run):
                tags_written = step is layout.steps[-1]
                self._write_run(step, with_tags=tags_written)
            else:
                self._write_field(step)
        if not tags_written:
            branches(
                source,
                layout.struct.versions,
                lambda version: version in layout.flexible,
                lambda flexible, _: self._write_tags([], tags=flexible),
            )

    def _write_checks(self) -> None:
        """A value that the version has no place for is refused, unless it may be ignored."""
        checks: dict[str, list[tuple[str, str]]] = {}
        versions = self.layout.struct.versions
        for item in self.layout.struct.fields:
            missing = outside(item.versions, versions)
            if missing and not item.ignorable:
                checks.setdefault(missing, []).append((item.name, self._differs(item)))
        inflexible = outside(self.layout.flexible, versions)
        if inflexible:
            unknown = ("unknown_tagged_fields", f"{self.owner}.unknown_tagged_fields")
            checks.setdefault(inflexible, []).append(unknown)
        for missing, fields in checks.items():
            if missing == "True":
                self._write_check(fields)
            else:
                self.source.line(f"if {missing}:")
                with self.source.block():
                    self._write_check(fields)

    def _write_check(self, fields: list[tuple[str, str]]) -> None:
        for name, unequal in fields:
            self.source.line(f"if {unequal}:")
            self.source.line(f"    raise {self._refusal(name)}")

    def _refusal(self, name: str) -> str:
        return f'{self.source.use("unsupported")}("{self.layout.class_name}", "{name}", version)'

    def _differs(self, item: Field) -> str:
        condition = differs(item, f"{self.owner}.{item.name}")
        if "ZERO_UUID" in condition:
            self.source.use("ZERO_UUID")
        return condition

    def _write_run(self, run: Run, *, with_tags: bool) -> None:
        def shape(version: int) -> tuple[tuple[str, ...], bool]:
            return run.present(version), with_tags and version in self.layout.flexible

        def emit(found: tuple[tuple[str, ...], bool], _: Versions) -> None:
            names, tags = found
            fields = [item for item in run.fields if item.name in names]
            codes = "".join(CODES[item.type] for item in fields)
            values = ", ".join(f"{self.owner}.{item.name}" for item in fields)
            if with_tags:
                self._write_tags([codes, values] if fields else [], tags=tags)
            elif fields:
                self.source.line(f"write({self.source.packer(codes)}({values}))")

        branches(self.source, self.layout.struct.versions, shape, emit)

    def _write_tags(self, fixed: list[str], *, tags: bool) -> None:
        """The last fixed fields, and the tagged section behind them."""
        source = self.source
        plain = f"write({source.packer(fixed[0])}({fixed[1]}))" if fixed else ""
        if not tags:
            if plain:
                source.line(plain)
            return
        source.line(f"if {self._has_tags()}:")
        with source.block():
            if plain:
                source.line(plain)
            if self.layout.tagged:
                source.line(f"{self.owner}._encode_tags(out, version)")
            else:
                write = source.use("write_tags")
                source.line(f"{write}(out, [], {self.owner}.unknown_tagged_fields)")
        source.line("else:")
        if fixed:
            source.line(f"    write({source.packer(fixed[0] + 'x')}({fixed[1]}))")
        else:
            source.line('    write(b"\\x00")')

    def _has_tags(self) -> str:
        parts = [f"{self.owner}.unknown_tagged_fields"]
        for item in self.layout.tagged:
            condition = inside(item.versions, self.layout.flexible)
            unequal = self._differs(item)
            if condition and " or " in unequal:
                unequal = f"({unequal})"
            parts.append(f"({condition} and {unequal})" if condition else unequal)
        return " or ".join(parts)

    def _write_field(self, item: Field) -> None:
        count_only = self.layout.differs_in_count_only(item)

        def emit(shape: Shape | None, _: Versions) -> None:
            if shape is None:
                return
            if not item.nullable.empty and not shape.nullable:
                self.source.line(f"if {self.owner}.{item.name} is None:")
                self.source.line(f"    raise {self._refusal(item.name)}")
            if count_only:
                self._write_count(item, shape)
            else:
                self._write_value(item, shape)

        versions = self.layout.struct.versions
        branches(self.source, versions, lambda version: self.layout.shape(item, version), emit)
        if count_only:
            self._write_items(item, compact=False)

    def _write_value(self, item: Field, shape: Shape) -> None:
        source, value = self.source, f"{self.owner}.{item.name}"
        if item.array:
            self._write_count(item, shape)
            self._write_items(item, compact=shape.compact)
        elif item.struct is None:
            source.line(f"write({self._plain(item, shape)})")
        elif shape.nullable:
            source.line(f"if {value} is None:")
            source.line('    write(b"\\xff")')
            source.line("else:")
            source.line('    write(b"\\x01")')
            source.line(f"    {value}.encode(out, version)")
        else:
            source.line(f"{value}.encode(out, version)")

    def _plain(self, item: Field, shape: Shape) -> str:
        value = f"{self.owner}.{item.name}"
        if item.type in FIXED_SIZES:
            return f"{self.source.packer(CODES[item.type])}({value})"
        kind = "string" if item.type == "string" else "bytes"
        name = "sized_bytes" if shape.prefix + kind == "bytes" else shape.prefix + kind
        return f"{self.source.use(name)}({value})"

    def _write_count(self, item: Field, shape: Shape) -> None:
        count = self.source.use(f"{shape.prefix}count")
        self.source.line(f"write({count}({self.owner}.{item.name}))")

    def _write_items(self, item: Field, *, compact: bool) -> None:
        """Nothing for an array that is null or empty."""
        source, value = self.source, f"{self.owner}.{item.name}"
        source.line(f"if {value}:")
        with source.block():
            if item.struct is not None:
                name = self.layout.class_names[item.type]
                source.line(f"{name}.encode_array({value}, out, version)")
            elif item.type == "string":
                strings = source.use("compact_strings" if compact else "strings")
                source.line(f"write({strings}({value}))")
            elif item.type == "uuid":
                source.line(f"write({source.use('uuids')}({value}))")
            else:
                source.line(f'write({source.use("numbers")}({value}, "{CODES[item.type]}"))')

    def write_tags_method(self) -> None:
        source = self.source
        source.lines(["", "def _encode_tags(self, target: Writer, version: int) -> None:"])
        with source.block():
            source.line("known: UnknownTags = []")
            for item in self.layout.tagged:
                condition = inside(item.versions, self.layout.flexible)
                unequal = self._differs(item)
                if condition:
                    unequal = f"{condition} and ({unequal})"
                source.line(f"if {unequal}:")
                with source.block():
                    self._write_tag(item)
            source.line(f"{source.use('write_tags')}(target, known, self.unknown_tagged_fields)")

    def _write_tag(self, item: Field) -> None:
        source = self.source
        # What is null by default is not written at all, so here it is known not to be null.
        null_by_default = item.default == "null"
        shape = Shape(compact=True, nullable=not item.nullable.empty and not null_by_default)
        if not item.array and item.struct is None:
            source.line(f"known.append(({item.tag}, {self._plain(item, shape)}))")
            return
        source.line("out = Writer()")
        if item.array or not item.nullable.empty:
            source.line("write = out.parts.append")
        if item.struct is not None and not item.array and null_by_default:
            source.line('write(b"\\x01")')
        self._write_value(item, shape)
        source.line(f"known.append(({item.tag}, out.getvalue()))")
