"""The reading half: ``decode``, ``decode_array`` and, where a struct has tags, ``_decode_tags``.

An array is read by one call that loops inside, and an object is made without its ``__init__``:
both are what makes the code fast where it is not compiled.
"""

from tools.protocolgen.defaults import default_value
from tools.protocolgen.layout import CODES, Layout, Run, Shape, branches, inside, size_min
from tools.protocolgen.source import Source

from ottla.protocol.schema_reader import FIXED_SIZES, Field, Versions


def write_decoders(source: Source, layout: Layout, *, single: bool, array: bool) -> None:
    name = layout.class_name
    decoder = _Decoder(source, layout)
    if single:
        source.lines(["", "@staticmethod"])
        source.line(f"def decode(data: bytes, pos: int, version: int) -> tuple[{name}, int]:")
        with source.block():
            source.line(f"o = {name}.__new__({name})")
            decoder.write_body()
            source.line("return o, pos")
    if array:
        source.lines(["", "@staticmethod", "def decode_array("])
        source.line("    data: bytes, pos: int, version: int, length: int")
        source.line(f") -> tuple[list[{name}], int]:")
        with source.block():
            source.line(f"items: list[{name}] = []")
            source.line(f"new = {name}.__new__")
            # Not "count", which the arrays inside use: mypyc looks at the bound in each round.
            source.line("for _ in range(length):")
            with source.block():
                source.line(f"o = new({name})")
                decoder.write_body()
                source.line("items.append(o)")
            source.line("return items, pos")
    if layout.tagged:
        decoder.write_tags_method()


class _Decoder:
    def __init__(self, source: Source, layout: Layout) -> None:
        self.source = source
        self.layout = layout

    def write_body(self) -> None:
        source, layout = self.source, self.layout
        for item in layout.tagged:
            source.line(f"o.{item.name} = {self._default(item)}")
        source.line("o.unknown_tagged_fields = None")
        tags_read = False
        for step in layout.steps:
            if isinstance(step, Run):
                tags_read = step is layout.steps[-1]
                self._write_run(step, with_tags=tags_read)
            else:
                self._write_field(step)
        if not tags_read:
            branches(
                source,
                layout.struct.versions,
                lambda version: version in layout.flexible,
                lambda flexible, _: self._write_tags() if flexible else None,
            )

    def _default(self, item: Field) -> str:
        value = default_value(item, self.layout.class_names)
        return self.source.use(value) if value == "ZERO_UUID" else value

    def _write_run(self, run: Run, *, with_tags: bool) -> None:
        def shape(version: int) -> tuple[tuple[str, ...], bool]:
            return run.present(version), with_tags and version in self.layout.flexible

        branches(
            self.source,
            self.layout.struct.versions,
            shape,
            lambda found, _: self._write_fixed(run, set(found[0]), tags=found[1]),
        )

    def _write_fixed(self, run: Run, present: set[str], *, tags: bool) -> None:
        source = self.source
        fields = [item for item in run.fields if item.name in present]
        for item in run.fields:
            if item.name not in present:
                source.line(f"o.{item.name} = {self._default(item)}")
        if fields:
            codes = "".join(CODES[item.type] for item in fields) + ("B" if tags else "")
            targets = [f"o.{item.name}" for item in fields] + (["tags"] if tags else [])
            left = f"({targets[0]},)" if len(targets) == 1 else ", ".join(targets)
            source.line(f"{left} = {source.reader(codes)}(data, pos)")
            size = sum(FIXED_SIZES[item.type] for item in fields) + tags
            source.line(f"pos += {size}")
            if tags:
                source.line("if tags:")
                with source.block():
                    self._write_slow_tags("pos - 1")
        elif tags:
            self._write_tags()

    def _write_tags(self) -> None:
        source = self.source
        source.line("if data[pos]:")
        with source.block():
            self._write_slow_tags("pos")
        source.line("else:")
        with source.block():
            source.line("pos += 1")

    def _write_slow_tags(self, pos: str) -> None:
        source = self.source
        if self.layout.tagged:
            source.line(f"pos = o._decode_tags(data, {pos}, version)")
        else:
            source.line(
                f"o.unknown_tagged_fields, pos = {source.use('read_unknown_tags')}(data, {pos})"
            )

    def _write_field(self, item: Field) -> None:
        def emit(shape: Shape | None, reach: Versions) -> None:
            if shape is None:
                self.source.line(f"o.{item.name} = {self._default(item)}")
            else:
                self._write_value(item, shape, reach, f"o.{item.name}")

        def emit_count(shape: Shape | None, reach: Versions) -> None:
            assert shape is not None
            self._write_count(item, shape, reach)

        versions = self.layout.struct.versions
        if self.layout.differs_in_count_only(item):
            branches(self.source, versions, lambda v: self.layout.shape(item, v), emit_count)
            nullable = not item.nullable.empty
            self._write_items(item, Shape(compact=False, nullable=nullable), f"o.{item.name}")
        else:
            branches(self.source, versions, lambda v: self.layout.shape(item, v), emit)

    def _write_value(self, item: Field, shape: Shape, reach: Versions, target: str) -> None:
        source = self.source
        if item.array:
            self._write_count(item, shape, reach)
            self._write_items(item, shape, target)
        elif item.struct is not None:
            name = self.layout.class_names[item.type]
            read = f"{target}, pos = {name}.decode(data, pos, version)"
            if shape.nullable:
                source.line(f"present, pos = {source.use('read_presence')}(data, pos)")
                source.line("if present:")
                with source.block():
                    source.line(read)
                source.lines(["else:", f"    {target} = None"])
            else:
                source.line(read)
        elif item.type in FIXED_SIZES:
            source.line(f"({target},) = {source.reader(CODES[item.type])}(data, pos)")
            source.line(f"pos += {FIXED_SIZES[item.type]}")
        else:
            kind = "string" if item.type == "string" else "bytes"
            read = source.use(f"read_{shape.prefix}{kind}")
            source.line(f"{target}, pos = {read}(data, pos)")

    def _write_count(self, item: Field, shape: Shape, reach: Versions) -> None:
        least = size_min(item, self.layout.flexible, reach)
        read = self.source.use(f"read_{shape.prefix}count")
        self.source.line(f"count, pos = {read}(data, pos, {least})")

    def _write_items(self, item: Field, shape: Shape, target: str) -> None:
        read = f"{target}, pos = {self._items(item, shape)}"
        if shape.nullable:
            lines = ["if count < 0:", f"    {target} = None", "else:", f"    {read}"]
            self.source.lines(lines)
        else:
            self.source.line(read)

    def _items(self, item: Field, shape: Shape) -> str:
        use = self.source.use
        if item.struct is not None:
            name = self.layout.class_names[item.type]
            return f"{name}.decode_array(data, pos, version, count)"
        if item.type == "string":
            read = use("read_compact_strings" if shape.compact else "read_strings")
            return f"{read}(data, pos, count)"
        if item.type == "uuid":
            return f"{use('read_uuids')}(data, pos, count)"
        code, size = CODES[item.type], FIXED_SIZES[item.type]
        return f'{use("read_numbers")}(data, pos, count, "{code}", {size})'

    def write_tags_method(self) -> None:
        source = self.source
        source.lines(["", "def _decode_tags(self, data: bytes, pos: int, version: int) -> int:"])
        with source.block():
            source.line(f"tags, pos = {source.use('read_tag_count')}(data, pos)")
            source.line("unknown: UnknownTags = []")
            source.line("for _ in range(tags):")
            with source.block():
                source.line(f"tag, pos, end = {source.use('read_tag')}(data, pos)")
                for number, item in enumerate(self.layout.tagged):
                    self._write_tag(item, "elif" if number else "if")
                source.lines(["else:", "    unknown.append((tag, data[pos:end]))", "    pos = end"])
                source.line("if pos != end:")
                source.line(
                    f"    raise {source.use('ProtocolViolation')}"
                    '(f"tag {tag} ends at {pos} and not at {end}")'
                )
            source.line("self.unknown_tagged_fields = unknown or None")
            source.line("return pos")

    def _write_tag(self, item: Field, word: str) -> None:
        source = self.source
        source.line(f"{word} tag == {item.tag}:")
        reach = item.versions
        with source.block():
            condition = inside(reach, self.layout.flexible)
            if condition:
                source.line(f"if not ({condition}):")
                source.line(
                    f"    raise {source.use('ProtocolViolation')}"
                    f'(f"tag {item.tag} is not valid in version {{version}}")'
                )
            branches(
                source,
                reach,
                lambda version: self.layout.shape(item, version),
                lambda shape, found: self._write_tagged_value(item, shape, found),
            )

    def _write_tagged_value(self, item: Field, shape: Shape | None, reach: Versions) -> None:
        assert shape is not None
        self._write_value(item, shape, reach, f"self.{item.name}")
