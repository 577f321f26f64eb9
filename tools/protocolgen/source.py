"""Lines of Python with their indentation, and the names that they need imported."""

from collections.abc import Iterator
from contextlib import contextmanager


class Source:
    """A module that grows line by line."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.imports: set[str] = set()
        self.formats: dict[str, str] = {}
        self._indent = 0

    def line(self, text: str = "") -> None:
        self.text.append("    " * self._indent + text if text else "")

    def lines(self, texts: list[str]) -> None:
        for text in texts:
            self.line(text)

    @contextmanager
    def block(self) -> Iterator[None]:
        self._indent += 1
        yield
        self._indent -= 1

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Collects lines without indentation, to be placed later."""
        text, indent = self.text, self._indent
        collected: list[str] = []
        self.text, self._indent = collected, 0
        yield collected
        self.text, self._indent = text, indent

    def use(self, name: str) -> str:
        """A name of ``primitives``, which the module will import."""
        self.imports.add(name)
        return name

    def reader(self, codes: str) -> str:
        name = f"_read_{_spelled(codes)}"
        self.formats[name] = f'Struct(">{codes}").unpack_from'
        return name

    def packer(self, codes: str) -> str:
        name = f"_pack_{_spelled(codes)}"
        self.formats[name] = f'Struct(">{codes}").pack'
        return name


def _spelled(codes: str) -> str:
    return codes.replace("16s", "u").replace("?", "t").replace("H", "uh")
